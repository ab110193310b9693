"""`task_completion` and `tool_argument_hallucination`: judge items one by one; the score is a share."""

from __future__ import annotations

from ..evaluator import Measurement, SkipEvaluation
from ..matching.explain import call_name
from ..model import EvalCase
from ..registry import register
from ..texts import counted, sentence
from .base import JudgedEvaluator, Ruling, numbered, rulings, rulings_schema, shares_details, turn_data, whole_data


@register
class TaskCompletion(JudgedEvaluator):
    """The share of the `tasks` of the case that the agent completed, as a judge rules on each; 1 for an empty list.

    A task that was begun, announced or completed in part is not completed, and the `constraints` of the case must be
    met. It judges a turn with the turns before it, or a conversation. With several votes, most must say so.

    Details: `tasks`, a list of `{task, completed, reason}`. Source: Dokimos.

    Example:

        evaluators:
          - task_completion: {scope: conversation, threshold: 1.0}
    """

    needs = ("tasks",)

    threshold: float | None = 0.5

    async def measure(self, case: EvalCase) -> Measurement:
        tasks = case.tasks or ()
        if not tasks:
            return Measurement(1.0, "There are no tasks.", {"tasks": []})
        data = whole_data(case)
        if not data:
            raise SkipEvaluation("not given: user_text, response_text, tool_calls or turns")
        data["tasks"] = numbered("task", tasks)
        if case.constraints:
            data["constraints"] = numbered("constraint", case.constraints)
        keys = [f"task_{number}" for number in range(1, len(tasks) + 1)]
        given = await self.ask(data, rulings_schema(keys))
        found = list(zip(tasks, rulings(given).values(), strict=True))
        completed = sum(ruling.passed for _, ruling in found)
        problems = [f"{task}: {ruling.reason.rstrip('. ')}" for task, ruling in found if not ruling.passed]
        listed = [{"task": task, "completed": ruling.passed, "reason": ruling.reason} for task, ruling in found]
        details = {"tasks": listed, **shares_details(given)}
        return Measurement.share(completed, len(tasks), "task", "completed", problems, details)


@register
class ToolArgumentHallucination(JudgedEvaluator):
    """The share of the calls whose arguments the agent did not make up, as a judge rules on each; 1 without calls.

    Known are the user's messages of this and earlier turns, and the results of tools before the call; an agent that
    knows more, from a profile or its instructions, gets low scores for it. A call without arguments counts as derived,
    and one whose arguments are unknown does not count; if no call counts, the result is skipped.

    Details: `calls`, a list of `{position, name, derived, reason}`. Source: Dokimos.

    Example:

        evaluators:
          - tool_argument_hallucination: {threshold: 1.0}
    """

    reads_calls = True
    needs = ("user_text",)

    threshold: float | None = 0.8

    async def measure(self, case: EvalCase) -> Measurement:
        calls = case.tool_calls
        if not calls:
            return Measurement(1.0, "No tool was called.", {"calls": []})
        known = [index for index, call in enumerate(calls) if call.arguments is not None]
        asked = [index for index in known if calls[index].arguments]
        if not known:
            raise SkipEvaluation("the arguments of the calls were not recorded")
        found, details = dict.fromkeys(known, Ruling(True, "it has no arguments")), {}
        if asked:
            schema = rulings_schema(f"call_{index + 1}" for index in asked)
            data = turn_data(case)
            data.pop("answer", None)  # it follows the calls: arguments cannot come from it
            given = await self.ask(data, schema)
            found.update(zip(asked, rulings(given).values(), strict=True))
            details = shares_details(given)
        made_up = [index for index in known if not found[index].passed]
        return Measurement(
            1 - len(made_up) / len(known),
            sentence(
                f"the arguments of {len(known) - len(made_up)} of {counted(len(known), 'call')} can be derived",
                [f"{call_name(index, calls)}: {found[index].reason.rstrip('. ')}" for index in made_up],
            ),
            {
                "calls": [
                    {
                        "position": index + 1,
                        "name": calls[index].name,
                        "derived": found[index].passed,
                        "reason": found[index].reason,
                    }
                    for index in known
                ],
                **details,
            },
        )
