"""Runs a Python task on the cases of a data set, in process, and evaluates what it returns."""

from __future__ import annotations

import asyncio
import inspect
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from a2a_tool_capture.models import Finding, rfc3339

from .agent_trace import AgentTrace, fields_of_outputs
from .evaluator import FAILURES, EvaluatorBase, error_reason
from .judge.function import PromptFunction
from .judge.panel import judge_of
from .judge.question import Judge, JudgeNotConfiguredError
from .judge.settings import JudgeSettings
from .judged.base import JudgedEvaluator, MeaningEvaluator, with_judge
from .metrics.conversation_scores import evaluate_conversation
from .model import EvalCase
from .options import or_known
from .outcomes.conversations import RunConversation, TurnJson, follow, outcomes
from .registry import get_evaluator
from .suite import Case, Suite, SuiteError
from .verdict import Verdict, gate
from .visibility import NO_CAPTURE, visibility_of

if TYPE_CHECKING:
    from .report.model import Report

Task: TypeAlias = Callable[[Case], Any]
"""A function from a case to what the agent did: an AgentTrace, a map of outputs (`output`, `toolCalls`,
`reasoningSteps`) or a text; or to an awaitable of one."""
DataSet: TypeAlias = Suite | str | Path | Iterable[Mapping[str, Any]]
"""A suite; the path of one, or of a file that `import_suite` reads; or examples, as in a data set of Dokimos."""


@dataclass(frozen=True)
class ExperimentResult:
    """The results of an experiment. `turns` are in the JSON form of a run, `whole` the results of conversations."""

    name: str
    suite: Suite
    turns: Sequence[TurnJson]
    whole: Mapping[str, Sequence[Mapping[str, Any]]]
    verdict: Verdict
    notes: tuple[str, ...] = ()
    """What of the data set was not imported."""

    @property
    def passed(self) -> bool:
        """Whether the gates accept the results; without gates, whether every result passed."""
        return self.verdict.passed

    @cached_property
    def conversations(self) -> list[RunConversation]:
        """The cases, each as often as it ran, with all results."""
        return follow(self.turns, self.suite, self.whole)

    @property
    def pass_rate(self) -> float:
        """The share of conversations that were executed whole, have a score, and no failed or errored result."""
        return sum(map(_passed, self.conversations)) / len(self.conversations)

    def average_score(self, metric: str) -> float | None:
        """The mean score; None if nothing was measured. Raises LookupError for an unknown metric."""
        means = {summary.metric: summary.mean for summary in self.verdict.metrics}
        if metric not in means:
            raise LookupError(f"no results of {metric!r}{or_known(metric, means)}")
        return means[metric]

    @cached_property
    def report(self) -> Report:
        """The data of the reports in `tool_call_evaluators.report`."""
        from .report import build_report

        return build_report(
            self.name, self.turns, self.verdict.to_dict(), suite=self.suite, conversation_results=self.whole
        )


def experiment(
    dataset: DataSet, task: Task, evaluators: Iterable[EvaluatorBase | str] | None = None, **options: Any
) -> ExperimentResult:
    """`run_experiment` for programs that are not asynchronous."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(run_experiment(dataset, task, evaluators, **options))
    raise RuntimeError("an event loop is running: use `await run_experiment(...)`")


async def run_experiment(
    dataset: DataSet,
    task: Task,
    evaluators: Iterable[EvaluatorBase | str] | None = None,
    *,
    name: str | None = None,
    runs: int = 1,
    concurrency: int = 1,
    judge: Judge | PromptFunction | JudgeSettings | None = None,
) -> ExperimentResult:
    """Run `task` on every case of `dataset`, `runs` times, and evaluate what it returns.

    `evaluators` are evaluators or their names; None: those of the suite. `judge` is for evaluators without one; None:
    the suite's or the environment's. At most `concurrency` tasks run at once; a synchronous task runs in a thread. A
    task that raises, or returns something else than a `Task` does, fails its case alone. A case of several turns needs
    an AgentTrace with a turn for each; turns with the messages that it has `given` are not evaluated.

    Raises SuiteError for the data set, ValueError for the options, and JudgeNotConfiguredError before the task runs.
    """
    for option, value in (("runs", runs), ("concurrency", concurrency)):
        if value < 1:
            raise ValueError(f"{option} must be at least 1, got {value}")
    suite, notes = _suite(dataset)
    suite = replace(suite, cases=tuple(case.held(runs) for case in suite.cases))
    given = None if evaluators is None else [get_evaluator(one) if isinstance(one, str) else one for one in evaluators]
    plans = [_Plan(case, *_built(suite, case, given, judge)) for case in suite.cases]
    slots = asyncio.Semaphore(concurrency)
    held = [_held(plan, task, f"{plan.case.id} #{number + 1}", slots) for plan in plans for number in range(runs)]
    found = await asyncio.gather(*held)
    turns = [turn for turns, _ in found for turn in turns]
    whole = {turns[0]["conversation_id"]: results for turns, results in found if turns}
    metrics = dict.fromkeys(evaluator.metric for plan in plans for evaluator in (*plan.of_turns, *plan.of_whole))
    judged = outcomes(follow(turns, suite, whole))
    verdict = gate(judged, metrics=metrics, gates=suite.gates, tolerate=suite.tolerate, run=suite.run_gates)
    return ExperimentResult(name or suite.name, suite, turns, whole, verdict, notes)


@dataclass(frozen=True, slots=True)
class _Plan:
    """A case and its evaluators, those of turns and those of whole conversations."""

    case: Case
    of_turns: Sequence[EvaluatorBase]
    of_whole: Sequence[EvaluatorBase]


def _suite(dataset: DataSet) -> tuple[Suite, tuple[str, ...]]:
    """The cases of a data set, and what was not imported. Raises SuiteError for one that cannot run, ValueError for
    examples that are no JSON."""
    from .importers import Imported, import_suite, import_text

    if isinstance(dataset, Suite):
        imported = Imported(dataset, "suite")
    elif isinstance(dataset, str | Path):
        imported = import_suite(dataset)
    else:
        examples = {"name": "experiment", "examples": list(dataset)}
        imported = import_text(json.dumps(examples, default=_json_form), "dataset")
    suite = imported.suite
    if not suite.cases:
        raise SuiteError("the data set has no examples", suite.name)
    for case in suite.cases:
        if case.simulate is not None:
            raise SuiteError(f"case {case.id} has a simulated user: use `a2a-eval-proxy run`", suite.name)
    return suite, imported.notes


def _json_form(value: Any) -> Any:
    """Of a ToolCall or a ToolDefinition."""
    if not hasattr(value, "to_dict"):
        raise ValueError(f"the data set contains {type(value).__name__}, which JSON does not have")
    return value.to_dict()


def _built(
    suite: Suite,
    case: Case,
    given: Sequence[EvaluatorBase] | None,
    judge: Judge | PromptFunction | JudgeSettings | None,
) -> tuple[list[EvaluatorBase], list[EvaluatorBase]]:
    """The evaluators of turns and of whole conversations, ready to be asked. Raises ValueError without any."""
    if given is None:
        built = [suite.build_evaluators("turn", case), suite.build_evaluators("conversation", case)]
    else:
        built = [[one for one in given if one.scope == scope] for scope in ("turn", "conversation")]
    if not any(built):
        raise ValueError("no evaluator is given")
    ready = [with_judge(evaluators, judge or suite.judge) for evaluators in built]
    for evaluator in (*ready[0], *ready[1]):
        if isinstance(evaluator, JudgedEvaluator | MeaningEvaluator) and suite.needs_judge(evaluator):
            try:
                judge_of(evaluator.judge)
            except JudgeNotConfiguredError as error:
                raise JudgeNotConfiguredError(f"{evaluator.metric}: {error}") from None
    return ready[0], ready[1]


async def _held(
    plan: _Plan, task: Task, conversation_id: str, slots: asyncio.Semaphore
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """The turns of one conversation with their results, and the results of the whole."""
    async with slots:
        begin = _now()
        try:
            seen = _seen(plan.case, await _outcome(task, plan.case))
        except FAILURES as error:  # error boundary: the task may raise anything
            failed = EvalCase(user_text=plan.case.input, response_text=error_reason(error))
            turn = _turn(plan.case, failed, conversation_id, 0, begin)
            reason = Finding("task_failed", error_reason(error)).to_dict()
            return [turn | {"state": "TASK_STATE_FAILED", "findings": [*turn["findings"], reason]}], []
        whole = plan.case.conversation_case(seen, history=seen[0].history if seen else ())
        found = await evaluate_conversation(whole, plan.of_whole, turn_evaluators=plan.of_turns, name=plan.case.id)
        turns = []
        for index, (case, results) in enumerate(zip(seen, found.turns, strict=True)):
            turn = _turn(plan.case, case, conversation_id, index, _now() if index else begin)
            turns.append(turn | {"evaluations": [result.to_dict() for result in results]})
        return turns, [result.to_dict() for result in found.results]


async def _outcome(task: Task, case: Case) -> Any:
    if inspect.iscoroutinefunction(task):
        return await task(case)
    outcome = await asyncio.to_thread(task, case)
    return await outcome if inspect.isawaitable(outcome) else outcome


def _seen(case: Case, outcome: Any) -> list[EvalCase]:
    """The turns that the task returned, each with the expectations of `case`. Raises ValueError for another value."""
    if isinstance(outcome, AgentTrace):
        done = outcome.conversation().turns or ()
    elif isinstance(outcome, str | Mapping):
        done = (EvalCase(**fields_of_outputs({"output": outcome} if isinstance(outcome, str) else outcome)),)
    else:
        kind = type(outcome).__name__
        raise ValueError(f"the task returned {kind}; expected an AgentTrace, a map of outputs or a text")
    seen: list[EvalCase] = []
    given = [made for made in done if made.user_text is not None and case.is_given({"user_text": made.user_text})]
    for made in (made for made in done if made not in given):
        planned = case.eval_case(
            case.turn_index(made.user_text or "", len(seen)),
            tool_calls=made.captured_calls,
            calls_unseen=made.calls_unseen,
            response_text=made.response_text,
            user_text=made.user_text,
            history=[*given, *seen],
        )
        seen.append(replace(planned, reasoning_steps=made.reasoning_steps))
    return seen


def _turn(planned: Case, case: EvalCase, conversation_id: str, index: int, started_at: str) -> dict[str, Any]:
    """A turn as in the JSON of a run, without results."""
    findings = [Finding(NO_CAPTURE, case.calls_unseen)] if case.calls_unseen else []
    state = "TASK_STATE_COMPLETED"
    return {
        "turn_id": f"{conversation_id}.{index + 1}",
        "case_id": planned.id,
        "conversation_id": conversation_id,
        "agent": "in process",
        "binding": "in process",
        "protocol_version": "",
        "state": state,
        "status": "done",
        "user_text": case.user_text or "",
        "response_text": case.response_text or "",
        "started_at": started_at,
        "first_event_at": None,
        "ended_at": _now(),
        "trace_id": "",
        "tool_calls": [call.to_dict() for call in case.captured_calls],
        **visibility_of(state, len(case.captured_calls), findings, "outputs").to_dict(),
        "capture": {},
        "findings": [finding.to_dict() for finding in findings],
        "evaluations": [],
    }


def _now() -> str:
    return rfc3339(datetime.now(UTC))


def _passed(conversation: RunConversation) -> bool:
    results = conversation.all_results
    return (
        conversation.complete
        and not any(turn.failure for turn in conversation.turns)
        and any(result.score is not None for result in results)
        and not any(result.bad for result in results)
    )
