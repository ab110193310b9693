"""The evaluators of a UiPath project: the files in `evaluators/`, and what they are called here."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ..suite.files import read_source
from ..suite.yaml_document import Node
from ..suite_fields import boolean, texts

_TYPES = {
    "uipath-tool-call-args": ("tool_call_args", ("strict", "subset")),
    "uipath-tool-call-order": ("tool_call_order", ("strict",)),
    "uipath-tool-call-count": ("tool_call_count", ("strict",)),
    "uipath-tool-call-output": ("tool_call_output", ("strict",)),
    "uipath-exact-match": ("exact_match", ("case_sensitive", "negated", "target_output_key")),
    "uipath-contains": ("contains", ("case_sensitive", "negated", "target_output_key")),
    "uipath-json-similarity": ("json_similarity", ("target_output_key",)),
    "uipath-llm-judge-output-semantic-similarity": ("llm_judge_output", ()),
    "uipath-llm-judge-output-strict-json-similarity": ("llm_judge_output", ()),
    "uipath-llm-judge-trajectory-similarity": ("llm_judge_trajectory", ()),
    "uipath-llm-judge-trajectory-simulation": ("llm_judge_trajectory", ()),
}
"""The evaluators here for UiPath's types, and the options that both have."""

_OLDER_TYPES = {1: "exact_match", 6: "json_similarity", 7: "llm_judge_trajectory"}
_JUDGE_OF_ANSWERS = 1
_JUDGES_OF_CONTEXT = (8, 9)
"""In files of the older form: numbers of `type`; that of `category` for judges of answers, and of those `type`s whose
judges read the documents an agent retrieved."""

NOT_IMPORTED = {
    "line_by_line_evaluator": "here it compares the whole answer",
    "prompt": "the judge gets our instructions",
    "model": "the judge of the suite is asked",
}
"""Options without an equivalent here, and what happens instead."""


@dataclass(frozen=True, slots=True)
class UiPathEvaluator:
    """An evaluator of the set: the name of its equivalent here (None: no equivalent), its options, its default
    criteria, and the options that are not imported."""

    kind: str | None
    options: Mapping[str, Any] = field(default_factory=dict)
    defaults: Node | None = None
    without: tuple[str, ...] = ()


def evaluators_beside(path: Path) -> dict[str, Node]:
    """The files of the project's evaluators, by id and by file name. The set may use some of them only."""
    found: dict[str, Node] = {}
    for file in sorted((path.parent.parent / "evaluators").glob("*.json")):
        node = read_source(file)
        found[node.text_at("id") or file.stem] = found[file.stem] = node
    return found


def read_evaluator(node: Node) -> UiPathEvaluator:
    type_id = node.text_at("evaluatorTypeId")
    older = type_id is None
    kind, names = _TYPES.get(str(type_id), (None, ())) if not older else _older_type(node)
    config = node if older else node.at("evaluatorConfig")
    options = {name: value for name in names if (value := _option(config, name)) is not None}
    defaults = config.get("defaultEvaluationCriteria", "default_evaluation_criteria")
    without = tuple(name for name in NOT_IMPORTED if (part := config.get(name, camel_case(name))) and part.value)
    return UiPathEvaluator(kind, options, defaults, without)


def _older_type(node: Node) -> tuple[str | None, tuple[str, ...]]:
    """The evaluator here, and its options, for the numbers of the older form."""
    category, number = (part.value if (part := node.get(name)) is not None else None for name in ("category", "type"))
    if category == _JUDGE_OF_ANSWERS and number not in _JUDGES_OF_CONTEXT:
        return "llm_judge_output", ()
    kind = _OLDER_TYPES.get(number) if isinstance(number, int) else None
    return kind, ("target_output_key",) if kind in ("exact_match", "json_similarity") else ()


def _option(config: Node, name: str) -> Any:
    """The value of an option; None if it is the default."""
    given = config.get(name, camel_case(name))
    if name != "target_output_key":
        return (given is not None and given.convert(boolean)) or None
    if given is None or given.value == "*":
        return None
    return list(given.convert(texts)) if isinstance(given.value, list) else given.text()


def camel_case(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(word.capitalize() for word in rest)
