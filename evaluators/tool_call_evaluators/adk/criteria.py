"""The criteria of google-adk in `test_config.json`, which replace the default one of the evalsets in its folder.

ADK's default requires equal calls in the same order and no others: `tool_trajectory` in mode `strict`. The criterion on
responses (ROUGE) has no equivalent here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ..gates import Gate
from ..suite import EvaluatorSpec
from ..suite.files import read_source
from ..suite.importing import Notes
from ..suite.node import Node
from ..suite_fields import boolean, number

_ERROR = EvaluatorSpec("tool_error")
_TRAJECTORY = "tool_trajectory_avg_score"
_MODES = {"EXACT": "strict", "IN_ORDER": "superset", "ANY_ORDER": "superset"}
"""By ADK's match type, whose numbers are their positions. IN_ORDER also needs the order of the names."""


@dataclass(frozen=True, slots=True)
class Criteria:
    """The evaluators of a suite, their limits, and whether the expected calls must be made in their order."""

    evaluators: tuple[EvaluatorSpec, ...] = (EvaluatorSpec("tool_trajectory", {"mode": "strict"}), _ERROR)
    gates: Mapping[str, Gate] = field(default_factory=dict)
    in_order: bool = False


def read_criteria(path: Path, notes: Notes) -> Criteria:
    """The criteria in the file at `path`: `{criteria: {metric: threshold, or {threshold, ...}}}`."""
    if not path.is_file():
        return Criteria()
    entries = read_source(path).at("criteria").entries()
    for metric in entries.keys() - {_TRAJECTORY}:
        notes.add(f"the criterion {metric} was not imported")
    if _TRAJECTORY not in entries:
        return Criteria((_ERROR,))
    node = entries[_TRAJECTORY]
    if isinstance(node.value, dict):
        threshold = node.need("threshold").convert(number)
        given, ignored = node.get("match_type", "matchType"), node.get("ignore_args", "ignoreArgs")
    else:
        threshold, given, ignored = node.convert(number), None, None
    match_type = "EXACT" if given is None else _match_type(given)
    options: dict[str, Any] = {"mode": _MODES[match_type]}
    if ignored is not None and ignored.convert(boolean):
        options["matcher"] = "ignore"
    in_order = match_type == "IN_ORDER"
    evaluators = [EvaluatorSpec("tool_trajectory", options), *([EvaluatorSpec("tool_call_order")] if in_order else ())]
    gates = {spec.name: Gate(conversation_mean=threshold) for spec in evaluators if threshold < 1}
    return Criteria((*evaluators, _ERROR), gates, in_order)


def _match_type(node: Node) -> str:
    """The name of a match type that is given by name or number."""
    names = tuple(_MODES)
    if node.value in range(len(names)):
        return names[int(node.value)]
    name = node.text().upper()
    if name not in names:
        node.fail(f"expected EXACT, IN_ORDER or ANY_ORDER, got {node.value!r}")
    return name
