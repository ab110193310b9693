"""`skills`: which skills the agent loaded, as its tool calls show it."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, ClassVar

from a2a_tool_capture.models import ToolCall

from ..evaluator import Measurement, SkipEvaluation, SyncEvaluator, field_text
from ..matching.call_failure import why_failed
from ..model import UNPROVEN, CallsUnseenError, EvalCase, EvalResult
from ..registry import register
from ..tool_classes import is_shown

_KEYS = ("skill_name", "skillName", "skill", "skill_id", "name", "id", "command")
_TOOLS: Mapping[str, tuple[str, ...]] = {
    **dict.fromkeys(("load_skill", "activate_skill", "use_skill", "skill"), _KEYS),
    **dict.fromkeys(("load_skill_resource", "read_skill_resource", "read_skill_file", "skills"), _KEYS[:4]),
    **dict.fromkeys(("run_skill_script", "execute_skill_script"), _KEYS[:4]),
}
"""Tools that load a skill, or use one, by their names in lower case, and the arguments that may name it: of google-adk,
Microsoft Agent Framework, Pydantic AI, Haystack, Strands, Claude, Gemini and OpenCode."""

_PREFIX = re.compile(r".*(?:__|[./:])")
_READS = re.compile("read|view|open|cat|load|shell|bash|exec|run|command|terminal", re.IGNORECASE)
_FILE = "SKILL.md"
"""The file of a skill, in an argument of a tool that reads files or runs commands, as in deep agents and coding agents:
the name of the skill is that of its folder."""
_FOLDER = re.compile(r"""([^/\\\s"'=*?$\[\]{}]+)[/\\]+$""")
_LONGEST_NAME = 300

_SHOWN_BY = {
    "name": "a tool that loads skills (such as load_skill)",
    "tools": [*(f"*{tool}" for tool in _TOOLS if "_" in tool), "skill", "Skill", "skills", "read_file", "Read"],
    "except": [],
}
"""The tools whose calls show that the loading of a skill would have been seen, as for `is_shown`."""


def skills_of(call: ToolCall) -> list[str]:
    """The skills that the call loads; "" for one that it does not name, or perhaps does not load."""
    tool = _PREFIX.sub("", call.name).lower()
    arguments = call.arguments or {}
    if tool in _TOOLS:
        named = (arguments.get(key) for key in _TOOLS[tool])
        names = [name.strip() for name in named if isinstance(name, str) and name.strip()]
        return names[:1] or ([""] if tool != "skills" else [])
    *before, _ = json.dumps(arguments, ensure_ascii=False, default=str).split(_FILE)
    folders = [_FOLDER.search(text[-_LONGEST_NAME:]) if _READS.search(tool) else None for text in before]
    return [folder[1] if folder else "" for folder in folders]


@register
class Skills(SyncEvaluator):
    """The share of the expectations about skills that are met: which ones the agent loaded, and no others.

    `expect: {skills: [...]}` names those that must be loaded, in any order; empty: none. `forbidden_skills` names those
    that must not be, whatever else is. Skills show in calls of the tools with which frameworks load them (`load_skill`,
    `Skill`, `activate_skill` and the like) and of tools that read the file `NAME/SKILL.md`. A call that failed loaded
    nothing; one that does not say which skill it loads leaves it unknown.

    A skill that must not be loaded and was, fails the turn even if other calls are unknown. Where no call of the turn,
    of those before it or elsewhere in the run, and none of the `tools`, loads skills, nothing shows that it would have
    been seen: an agent may choose a skill of its card without a tool. Then the result is skipped with the label
    `unproven`, and the run fails unless the suite tolerates it.

    Details: `loaded`, the names of the skills; `controls` and `unproven`, as in `forbidden_calls`.

    Example:

        evaluators: [skills]
        cases:
          - id: refund
            turns:
              - user: I want my money back for ORD-1001.
                expect: {skills: [refunds]}
              - user: Thank you!
                expect: {skills: [], forbidden_skills: [marketing]}
    """

    reads: ClassVar[tuple[str, ...] | None] = ("expected_skills", "forbidden_skills")

    def _not_measurable(self, case: EvalCase) -> EvalResult | None:
        return None  # a forbidden skill counts, even where other calls are not known

    def measure(self, case: EvalCase) -> Measurement:
        expected, forbidden = case.expected_skills, dict.fromkeys(case.forbidden_skills or ())
        if expected is None and not forbidden:
            raise SkipEvaluation(f"not given: {field_text('expected_skills')}")
        loaded, unknown = dict[str, None](), case.calls_unseen
        for call in case.captured_calls:
            names = [] if (call.error or call.result) and why_failed(call.error, call.result) else skills_of(call)
            if "" in names:
                unknown = unknown or f"which skill a call of {call.name} loads is not known"
            loaded |= dict.fromkeys(filter(None, names))
        wanted = dict.fromkeys(loaded if expected is None else expected)
        wrong = [f"{name} is forbidden, and was loaded" for name in forbidden if name in loaded]
        wrong += [
            f"{name} was loaded, and is not expected" for name in loaded if name not in wanted and name not in forbidden
        ]
        problems = [*wrong, *(f"{name} was not loaded" for name in wanted if name not in loaded)]
        judged = len({*(expected or ()), *forbidden, *(() if expected is None else loaded)})
        found = Measurement.share(
            judged - len(problems), judged, "skill", "as expected", problems, {"loaded": [*loaded]}
        )
        if wrong:
            return found
        if unknown is not None:
            raise CallsUnseenError(unknown)
        if loaded or _would_be_seen(case):
            return found
        raise SkipEvaluation(
            f"no skill was seen, but nothing shows that it would have been: {_SHOWN_BY['name']} was not called, and is "
            "not among the `tools` of the suite",
            UNPROVEN,
            {"loaded": [], UNPROVEN: [{**_SHOWN_BY, "score": found.score, "reason": found.reason.rstrip(".")}]},
        )


def _would_be_seen(case: EvalCase) -> bool:
    calls = [call for turn in (case, *case.history, *(case.turns or ())) for call in turn.captured_calls]
    names: list[Any] = [*(tool.name for tool in case.tools or ()), *(call.name for call in calls)]
    return is_shown(_SHOWN_BY, names) is not None or any(any(skills_of(call)) for call in calls)
