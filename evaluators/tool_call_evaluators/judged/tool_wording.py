"""`tool_name_reliability` and `tool_description_reliability`: can a model understand the tools?

Some checks are rules; a judge adds others. The score is checks passed / checks run.
"""

from __future__ import annotations

import re
from abc import abstractmethod
from collections.abc import Awaitable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from ..evaluator import Measurement
from ..judge.panel import Poll, judge_details, spread
from ..model import EvalCase, EvalResult, ToolDefinition
from ..registry import register
from ..texts import counted
from .base import JudgeableEvaluator, rulings, rulings_schema, shares, tools_text

MAX_SEGMENTS = 7
IMPLEMENTATION_WORDS = ("_with_llm", "_via_api", "_from_s3", "_using_bq", "_using_sdk", "_with_gpt4")
_SNAKE_CASE = re.compile(r"[a-z][a-z0-9]*(_[a-z0-9]+)*")
_TYPE_KEYS = frozenset({"type", "enum", "const", "$ref", "anyOf", "oneOf", "allOf"})

Checks = dict[str, bool]


@dataclass(frozen=True, kw_only=True)
class _ToolReliability(JudgeableEvaluator):
    """Checks passed / checks run over all tools; 1 without tools.

    Without a judge only the rules run, and `evaluate` is synchronous. With one, each tool is a question to the judge,
    and a check of both must pass both.
    """

    needs = ("tools",)
    judged_checks: ClassVar[tuple[str, ...]]

    threshold: float | None = 0.8

    @property
    def is_async(self) -> bool:
        return self.judge is not None

    def evaluate(self, case: EvalCase) -> EvalResult | Awaitable[EvalResult]:
        if (unmeasured := self._not_measurable(case)) is not None:
            return unmeasured
        tools = case.tools or ()
        by_rule = [self.rules(tool) for tool in tools]
        if self.judge is None or not tools:
            return self._scored(_measured(tools, by_rule))
        return self._judged(tools, by_rule)

    @abstractmethod
    def rules(self, tool: ToolDefinition) -> Checks:
        """Each rule, and whether `tool` passes it."""

    async def _judged(self, tools: Sequence[ToolDefinition], by_rule: Sequence[Checks]) -> EvalResult:
        data = [{"tool": tools_text([tool])} for tool in tools]
        try:
            polls = await self._ask_each(data, rulings_schema(self.judged_checks))
            found = _measured(tools, [_together(rules, given) for rules, given in zip(by_rule, polls, strict=True)])
            votes = [list(vote) for vote in zip(*map(shares, polls), strict=True)]
            apart = max(spread(scores) for scores in map(shares, polls))
            details = {**found.details, "votes": votes, "judge": judge_details(polls, apart)}
            return self._scored(replace(found, details=details))
        except Exception as error:  # noqa: BLE001  # a custom judge may raise anything
            return self._failed(error)


@register
class ToolNameReliability(_ToolReliability):
    """How well the names of the tools tell a model what they do: checks passed / checks run; 1 without tools.

    - `snakecase_format`: lower-case words and digits joined by single underscores
    - `conciseness`: at most 7 such segments
    - `intent_over_implementation`: none of `implementation_words` is in it; a judge also checks the meaning
    - `clarity`, `name_order`, only with a judge: the purpose is clear from the name alone; operation, system, entity,
      data come in this order

    It scores definitions, which do not change from turn to turn: one case is enough. Without a judge only the rules
    run.

    Details: `tools`, a list of `{name, checks}`; with a judge also `votes` and `judge`. Source: Dokimos.

    Example:

        tools: [{name: get_order_status}]
        evaluators:
          - tool_name_reliability: {implementation_words: [_via_api, _from_sap]}
    """

    judged_checks = ("clarity", "name_order", "intent_over_implementation")

    implementation_words: Sequence[str] = IMPLEMENTATION_WORDS
    """What no name may contain, whatever the case."""

    def rules(self, tool: ToolDefinition) -> Checks:
        lowered = tool.name.lower()
        return {
            "snakecase_format": _SNAKE_CASE.fullmatch(tool.name) is not None,
            "conciseness": len(tool.name.split("_")) <= MAX_SEGMENTS,
            "intent_over_implementation": not any(word.lower() in lowered for word in self.implementation_words),
        }


@register
class ToolDescriptionReliability(_ToolReliability):
    """How well the definitions of the tools tell a model how to call them: checks passed / checks run; 1 without tools.

    - `input_arguments_clarity`: every argument has a description
    - `input_arguments_types`: every argument has a type, or an enum, a reference or a choice that implies one
    - `max_num_input_arguments`, `max_optional_input_arguments`: at most so many arguments, and optional ones
    - only with a judge: `general_structure`, `has_examples`, `has_usage_notes`, `intent_over_implementation`,
      `clarity`, `redundancy`, `input_arguments_enum`, `input_arguments_format`, `return_statement_quality`

    Arguments are the top-level properties of the schema. It scores definitions, which do not change from turn to turn:
    one case is enough.

    Details: `tools`, a list of `{name, checks}`; with a judge also `votes` and `judge`. Source: Dokimos.

    Example:

        tools: [{name: get_order_status, description: Finds an order.}]
        evaluators:
          - tool_description_reliability: {max_num_input_arguments: 8}
    """

    judged_checks = (
        "general_structure",
        "has_examples",
        "has_usage_notes",
        "intent_over_implementation",
        "clarity",
        "redundancy",
        "input_arguments_enum",
        "input_arguments_format",
        "return_statement_quality",
    )
    spellings: ClassVar[Mapping[str, str]] = {
        "max_input_args": "max_num_input_arguments",
        "max_optional_args": "max_optional_input_arguments",
    }

    max_num_input_arguments: int = 5
    """The largest number of arguments of a tool."""
    max_optional_input_arguments: int = 3
    """The largest number of arguments that are not required."""

    def rules(self, tool: ToolDefinition) -> Checks:
        properties = _mapping(tool.parameters.get("properties"))
        schemas = [_mapping(schema) for schema in properties.values()]
        required = tool.parameters.get("required")
        optional = [name for name in properties if not isinstance(required, Sequence) or name not in required]
        return {
            "input_arguments_clarity": all(str(schema.get("description") or "").strip() for schema in schemas),
            "input_arguments_types": all(_TYPE_KEYS & schema.keys() for schema in schemas),
            "max_num_input_arguments": len(properties) <= self.max_num_input_arguments,
            "max_optional_input_arguments": len(optional) <= self.max_optional_input_arguments,
        }


def _together(rules: Checks, given: Poll) -> Checks:
    judged = {check: ruling.passed for check, ruling in rulings(given).items()}
    return {**judged, **{check: passed and judged.get(check, True) for check, passed in rules.items()}}


def _measured(tools: Sequence[ToolDefinition], checks: Sequence[Checks]) -> Measurement:
    """The share of checks passed over all tools, and the failed checks of each tool."""
    found_by_name = [(tool.name, found) for tool, found in zip(tools, checks, strict=True)]
    ran = sum(map(len, checks))
    passed = sum(sum(found.values()) for found in checks)
    failed = [
        f"{name} fails {', '.join(check for check, ok in found.items() if not ok)}"
        for name, found in found_by_name
        if not all(found.values())
    ]
    details = {"tools": [{"name": name, "checks": found} for name, found in found_by_name]}
    return Measurement.share(passed, ran, "check", f"passed over {counted(len(tools), 'tool')}", failed, details)


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}
