"""`delegation` and `delegated_values`: how an agent gives work to others, and whether values survive that."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

from ..agent_tree import AgentTurn, certain_part, first_failed_edge, walk, what_is_unsure
from ..evaluator import Measurement, SkipEvaluation, SyncEvaluator
from ..matching.patterns import all_found, compiled_pattern
from ..model import EvalCase
from ..options import OptionError, check_limits
from ..registry import register
from ..texts import counted, excerpt, sentence
from .agents_asked import NO_CONTENT, WITHHELD

REPEATED = "FM-1.3 step repetition"
ENDLESS = "FM-1.5 unaware of termination conditions"
IGNORED = "FM-2.5 ignored other agent's input"
"""Failure modes of MAST (Cemri et al. 2025, arXiv 2503.13657)."""

NOBODY_ASKED = "no request to another agent was seen"


Trees: TypeAlias = Sequence[AgentTurn]
"""Of a turn its tree, of a conversation those of its turns."""


class _Found(NamedTuple):
    """An amount in trees, where it is the largest, and why it may be larger."""

    value: int
    where: str = ""
    unknown: str = ""


@register
class Delegation(SyncEvaluator):
    """The share of the limits on how agents give work to each other that are met.

    It reads the tree of turns that a turn caused. With `scope: conversation`, depth and fan-out are the largest of any
    turn, and the others the sums of all turns. Only requests that are certain count: if a guess or a turn that is not
    over could still exceed a limit, and no other is exceeded, the result is skipped. So it is if no agent was asked.

    Details, by limit: `{limit, actual}`; `first_failed`, the turn that failed first; `mast`, the failure modes of MAST:
    FM-1.3 for repeats, FM-1.5 for loops. Source: MAST (Cemri et al. 2025, https://arxiv.org/abs/2503.13657).

    Example:

        evaluators:
          - delegation: {max_depth: 3, max_fan_out: 5, max_failures: 1}
    """

    needs = ("trees",)

    max_depth: int | None = None
    """Levels of agents below the first."""
    max_fan_out: int | None = None
    """Requests of one agent to others within one turn."""
    max_loops: int | None = 0
    """Times an agent was asked by one that works for it, directly or through others."""
    max_repeats: int | None = 0
    """Times an agent asked the same of the same agent again, which had answered."""
    max_failures: int | None = 0
    """Turns of asked agents that failed, those included that were tried again."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_limits(self, _MEASURES, self.name)

    def measure(self, case: EvalCase) -> Measurement:
        trees, unsure = [certain_part(tree) for tree in case.trees or ()], what_is_unsure(*case.trees or ())
        if not any(tree.children for tree in trees):
            raise SkipEvaluation(f"not known: {unsure}" if unsure else NOBODY_ASKED)
        details: dict[str, Any] = {}
        problems, unknown = [], []
        mast: dict[str, None] = {}
        for name, (words, measure) in _MEASURES.items():
            if (limit := getattr(self, name)) is None:
                continue
            found = measure(trees)
            details[name] = {"limit": limit, "actual": found.value}
            if found.value > limit:
                problems.append(f"{words}: {found.value}, of at most {limit}{found.where}")
                mast |= dict.fromkeys(_MODES.get(name, ()))
            elif why := found.unknown or unsure:
                unknown.append(f"{words}: {why}")
        if unknown and not problems:
            raise SkipEvaluation(f"not known: {'; '.join(unknown)}")
        limits = len(details)
        if (failed := first_failed_edge(*trees)) is not None:
            details["first_failed"] = failed.turn.turn_id
        if mast:
            details["mast"] = list(mast)
        met = limits - len(problems) - len(unknown)
        return Measurement(met / limits, sentence(f"{met} of {counted(limits, 'limit')} met", problems), details)


def _asked(trees: Trees) -> Iterator[tuple[AgentTurn, AgentTurn]]:
    """Each turn below a root, after the turn that asked for it."""
    return ((placed.parent, placed.turn) for placed in walk(*trees) if placed.parent is not None)


def _depth(trees: Trees) -> _Found:
    deepest = max(walk(*trees), key=lambda placed: placed.depth)
    return _Found(deepest.depth, f", at {deepest.turn.agent}")


def _fan_out(trees: Trees) -> _Found:
    widest = max((placed.turn for placed in walk(*trees)), key=lambda turn: len(turn.children))
    return _Found(len(widest.children), f", by {widest.agent}")


def _loops(trees: Trees) -> _Found:
    found: list[str] = []
    waiting: list[tuple[AgentTurn, tuple[str, ...]]] = [(tree, ()) for tree in trees]
    while waiting:
        turn, above = waiting.pop()
        if turn.agent in above:
            found.append(" → ".join((*above[above.index(turn.agent) :], turn.agent)))
        waiting += [(child, (*above, turn.agent)) for child in turn.children]
    return _Found(len(found), f" ({excerpt(found[0], 120)})" if found else "")


def _repeats(trees: Trees) -> _Found:
    again: list[str] = []
    unknown = ""
    for placed in walk(*trees):
        answered = Counter[tuple[str, str]]()
        for child in sorted(placed.turn.children, key=lambda turn: turn.started_at):
            if not child.has_content:
                unknown = unknown or f"what {child.agent} was asked: {NO_CONTENT}"
                continue
            said = " ".join(child.user_text.split()).casefold()
            if said and answered[child.agent, said]:
                again.append(f"{placed.turn.agent} asked {child.agent} again: {excerpt(child.user_text, 60)}")
            if not child.failure:
                answered[child.agent, said] += 1
    return _Found(len(again), f" ({again[0]})" if again else "", unknown)


def _failures(trees: Trees) -> _Found:
    failed = sum(bool(turn.failure) for _, turn in _asked(trees))
    if (first := first_failed_edge(*trees)) is None or first.parent is None:
        return _Found(failed)
    return _Found(failed, f" (first {first.turn.agent}, asked by {first.parent.agent}: {first.turn.failure})")


_MEASURES: Mapping[str, tuple[str, Callable[[Trees], _Found]]] = {
    "max_depth": ("depth", _depth),
    "max_fan_out": ("fan-out", _fan_out),
    "max_loops": ("loops", _loops),
    "max_repeats": ("repeated requests", _repeats),
    "max_failures": ("failed turns", _failures),
}
_MODES = {"max_loops": (ENDLESS,), "max_repeats": (REPEATED,)}


@register
class DelegatedValues(SyncEvaluator):
    """The share of the values that reach other agents and come back, such as the number of an order.

    Patterns find the values: those of `passed_on` in the user's message must be in a message to an agent that was
    asked; those of `used` in the answers of these agents must be in the final answer. Values compare as text, without
    case. Only agents count that the agent of the turn certainly asked itself, and no answers of turns that failed. With
    `scope: conversation`, a value is kept in whatever turn. If no agent was asked, or no value is found, the result is
    skipped.

    Details: `lost`, a list of `{value, by}`; `mast`, the failure modes of MAST: FM-2.4 or FM-2.5. Source: MAST (Cemri
    et al. 2025, https://arxiv.org/abs/2503.13657).

    Example:

        evaluators:
          - delegated_values: {passed_on: ["ORD-[0-9]+"], used: ["REF-[0-9]+", "[0-9.]+ EUR"]}
    """

    needs = ("trees",)

    passed_on: Sequence[str] = ()
    """Patterns of what the user says and other agents need, such as numbers of orders."""
    used: Sequence[str] = ()
    """Patterns of what other agents answer and the user needs, such as amounts."""

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("passed_on", "used"):
            for pattern in getattr(self, name):
                try:
                    compiled_pattern(pattern, ascii_classes=True)
                except ValueError as error:
                    raise OptionError(f"{self.name}: option {name}: {error}", name) from None
        if not self.passed_on and not self.used:
            raise OptionError(f"{self.name}: give patterns: passed_on, used, or both")

    def measure(self, case: EvalCase) -> Measurement:
        turns, trees = (case,) if case.turns is None else case.turns, case.trees or ()
        for name in ("user_text", "response_text"):
            if any(getattr(turn, name) is None for turn in turns):
                raise SkipEvaluation(f"not given: {name}")
        children = [child for tree in trees for child in certain_part(tree).children]
        unsure = what_is_unsure(*trees)
        if not children:
            raise SkipEvaluation(f"not known: {unsure}" if unsure else NOBODY_ASKED)
        if not all(child.has_content for child in children):
            raise SkipEvaluation(f"not known: what other agents were asked, and answered: {NO_CONTENT}")
        messages = [child.user_text.casefold() for child in children]
        answer = "\n".join(turn.response_text or "" for turn in turns).casefold()
        found, lost = 0, []
        for value in _values(self.passed_on, "\n".join(turn.user_text or "" for turn in turns)):
            found += 1
            if not any(value.casefold() in message for message in messages):
                lost.append((value, "was passed on to no agent", WITHHELD, ""))
        for child in children:
            for value in _values(self.used, "" if child.failure else child.response_text):
                found += 1
                if value.casefold() not in answer:
                    lost.append((value, f"of {child.agent} is not in the answer", IGNORED, child.agent))
        if not found:
            raise SkipEvaluation("the patterns find no value")
        if unsure and any(mode == WITHHELD for _, _, mode, _ in lost):
            raise SkipEvaluation(f"not known: {unsure}")
        details: dict[str, Any] = {"lost": [{"value": value, "by": by} for value, _, _, by in lost]}
        if lost:
            details["mast"] = list(dict.fromkeys(mode for _, _, mode, _ in lost))
        kept = found - len(lost)
        problems = [f"{excerpt(value)} {what}" for value, what, _, _ in lost]
        return Measurement(kept / found, sentence(f"{kept} of {counted(found, 'value')} kept", problems), details)


def _values(patterns: Iterable[str], text: str) -> list[str]:
    return list(dict.fromkeys(value for pattern in patterns for value in all_found(pattern, text)))
