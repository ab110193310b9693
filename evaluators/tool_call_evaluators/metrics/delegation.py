"""`agents_asked`, `delegation` and `delegated_values`: whom an agent asks, how it gives work to others, and whether
values survive that."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

from ..agent_tree import AgentTurn, PlacedTurn, certain_part, first_failed_edge, walk, what_is_unsure
from ..evaluator import Measurement, SkipEvaluation, SyncEvaluator
from ..matching.overlaps import in_some_order, overlapping
from ..matching.pairing import longest_common_subsequence
from ..matching.patterns import all_found, compiled_pattern
from ..model import EvalCase, ExpectedAgent
from ..options import OptionError, check_limits
from ..registry import register
from ..texts import counted, excerpt, sentence

IGNORED_ROLE = "FM-1.2 disobey role specification"
IGNORED_TASK = "FM-1.1 disobey task specification"
WITHHELD = "FM-2.4 information withholding"
"""Failure modes of MAST (Cemri et al. 2025, arXiv 2503.13657)."""

NO_CONTENT = "it is stored without content"


@register
class AgentsAsked(SyncEvaluator):
    """The share of the expectations about other agents that are met: who is asked, how often and with what.

    An entry of `expect: {agents: ...}` is the name of an agent, or `{name, at_least, at_most, given}`: at least once
    unless it says otherwise, at most `at_most` times (0: never), and each text in `given` is in a message to it,
    whatever the case. An agent counts however deep below the turn it was asked. Agents that work at the same time
    have no order, unless one asked the other.

    Only requests that are certain count. If a guess, or a turn that is not over, could still change an expectation, and
    no other is broken, the result is skipped; so it is if an agent must not be asked and no request to any agent was
    seen.

    Details: `asked`, by agent, how many times; `mast`, the failure modes of MAST: FM-1.1, FM-1.2 or FM-2.4. Source:
    MAST (Cemri et al. 2025, https://arxiv.org/abs/2503.13657).

    Example:

        suite: desk
        evaluators: [agents_asked]
        cases:
          - id: refund
            turns:
              - user: Refund order ORD-1002, please.
                expect: {agents: [{name: orders, given: ORD-1002}, {name: payroll, at_most: 0}]}
    """

    needs = ("expected_agents", "trees")

    in_order: bool = False
    """Whether the expected agents must be asked in the order in which they are named. Others may come between."""

    def measure(self, case: EvalCase) -> Measurement:
        expected: Sequence[ExpectedAgent] = case.expected_agents or ()
        trees = case.trees or ()
        certain, unsure = map(certain_part, trees), what_is_unsure(*trees)
        placed = list(walk(*certain))
        below = [one.turn for one in placed if one.parent is not None]
        asked = sorted(below, key=lambda turn: turn.started_at)
        problems: list[str] = []
        open_questions: list[str] = []
        mast: dict[str, None] = {}
        for agent in expected:
            turns = [turn for turn in asked if turn.agent == agent.name]
            if agent.at_most is not None and len(turns) > agent.at_most:
                problems.append(
                    f"{agent.name} was asked {counted(len(turns), 'time')}, at most {agent.at_most} expected"
                )
                mast[IGNORED_TASK if agent.at_most else IGNORED_ROLE] = None
                continue
            problem, mode = _missing(agent, turns)
            if unsure and (problem or agent.at_most is not None):
                open_questions.append(f"whether {agent}: {unsure}")
            elif mode == WITHHELD and not all(turn.has_content for turn in turns):
                open_questions.append(f"what {agent.name} was given: {NO_CONTENT}")
            elif problem:
                problems.append(problem)
                mast[mode] = None
            elif agent.at_most == 0 and not asked:
                open_questions.append(f"whether {agent.name} was asked: no request to any agent was seen")
        required = len(expected)
        if self.in_order:
            required += 1
            order = [agent.name for agent in expected if agent.at_least > 0]
            if not _is_in_order(order, asked, placed):
                (open_questions if unsure else problems).append(f"the order is not {' → '.join(order)}")
        if open_questions and not problems:
            raise SkipEvaluation(f"not known: {'; '.join(open_questions)}")
        met = required - len(problems) - len(open_questions)
        details: dict[str, Any] = {"asked": dict.fromkeys((agent.name for agent in expected), 0)}
        for turn in asked:
            details["asked"][turn.agent] = details["asked"].get(turn.agent, 0) + 1
        if mast:
            details["mast"] = list(mast)
        summary = f"{met} of {counted(required, 'expectation')} of agents met"
        return Measurement(met / required if required else 1.0, sentence(summary, problems), details)


def _missing(agent: ExpectedAgent, turns: Sequence[AgentTurn]) -> tuple[str, str]:
    """What is missing of an expected agent, with the failure mode; "" for nothing."""
    if len(turns) < agent.at_least:
        times = f"was asked {counted(len(turns), 'time')}, at least {agent.at_least} expected"
        return f"{agent.name} {times}" if turns else f"no request to {agent.name} was seen", IGNORED_TASK
    messages = [turn.user_text.casefold() for turn in turns if turn.has_content]
    for text in agent.given if turns else ():
        if not any(text.casefold() in message for message in messages):
            return f"{agent.name} was not given {text}", WITHHELD
    return "", ""


def _is_in_order(expected: Sequence[str], asked: Sequence[AgentTurn], placed: Sequence[PlacedTurn]) -> bool:
    """Whether the agents were asked in this order. Of turns that overlap, only one that caused the other came first."""
    free = overlapping([None if turn.ended_at is None else (turn.started_at, turn.ended_at) for turn in asked])
    parents = {id(one.turn): one.parent for one in placed}
    places = {id(turn): index for index, turn in enumerate(asked)}
    for index, turn in enumerate(asked):
        above = parents[id(turn)]
        while above is not None:
            if (place := places.get(id(above))) is not None:
                free[index] &= ~(1 << place)
                free[place] &= ~(1 << index)
            above = parents[id(above)]
    table = [sum(1 << index for index, turn in enumerate(asked) if turn.agent == name) for name in expected]
    return len(in_some_order(longest_common_subsequence, free)(table, len(asked))) == len(expected)


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
