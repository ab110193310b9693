"""`agents_asked`: whether the agents that should be asked were asked, and no others that must not be."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..agent_tree import AgentTurn, PlacedTurn, certain_part, walk, what_is_unsure
from ..evaluator import Measurement, SkipEvaluation, SyncEvaluator
from ..matching.overlaps import in_some_order, overlapping
from ..matching.pairing import longest_common_subsequence
from ..model import EvalCase, ExpectedAgent
from ..registry import register
from ..texts import counted, sentence

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
