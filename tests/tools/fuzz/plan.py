"""A round, planned: which connections there are, what each side says and how the agent answers. Pure.

A round is a function of its seed. Not everything is in every round: each leaves out a good part of the behaviours,
so that some meet often which would be rare in a mixture of all ("swarm testing"). What one round leaves out is in the
next, so that two rounds have everything.
"""

from __future__ import annotations

from random import Random

from . import agent_behaviours, client_behaviours
from .values import ConnectionPlan, Exchange, Reading, token_of

BEHAVIOURS = (*client_behaviours.SHAPES, *client_behaviours.MANNERS, *agent_behaviours.BEHAVIOURS)
"""The names of all that is unusual, on either side."""

_CHOSEN = 0.6
_CHOSEN_TOO = 0.3
"""In every other round, besides what the one before left out."""

_ODD_REQUESTS = 0.55
_ODD_SENDING = 0.15
_ODD_ANSWERS = 0.6
_SLOW_READERS = 0.5
_SLOW_EXCHANGES = 2
_MEANWHILE = 0.3
"""Connections whose agent is late where others read slowly: who is harmed by a slow reader must be there for long."""
_PIPELINES = 0.4
_LIKELY = 0.6
_ONLY_HUGE = 0.8
_TOGETHER = {"slow-reader": {"huge", "late"}, "get-body": {"cut"}, "upload": {"overlapped"}}
"""What brings out what: who reads slowly needs much to read; what may be sent again needs a reason; what lasts long
needs something else meanwhile."""

_SENDING = ("pieces", "leaves")


def connections_of(seed: int, index: int, count: int) -> list[ConnectionPlan]:
    """The connections of the round of that number."""
    chosen = _chosen(seed, index)
    first = 0
    plans = []
    for number in range(count):
        plan = _connection(Random(f"{seed}/{index}/{number}"), index, first, chosen)
        first += len(plan.exchanges)
        plans.append(plan)
    return plans


def _chosen(seed: int, index: int) -> frozenset[str]:
    dice = Random(f"{seed}/{index}/behaviours")
    chosen = frozenset(name for name in BEHAVIOURS if dice.random() < (_CHOSEN_TOO if index % 2 else _CHOSEN))
    if index % 2:
        chosen |= frozenset(BEHAVIOURS) - _chosen(seed, index - 1)
    return chosen.union(*(others for name, others in _TOGETHER.items() if name in chosen))


def _connection(dice: Random, round_index: int, first: int, chosen: frozenset[str]) -> ConnectionPlan:
    count = dice.choice((1, 1, 2, 4, 6))
    reading = Reading()
    likely: frozenset[str] = frozenset()
    if "slow-reader" in chosen and dice.random() < _SLOW_READERS:
        reading = client_behaviours.slow_reading(dice)
        likely = frozenset({"huge"})  # of less, a slow reader is not slow
        count = min(count, _SLOW_EXCHANGES)
    elif "slow-reader" in chosen and dice.random() < _MEANWHILE:
        likely = frozenset({"late"})
    exchanges = tuple(exchange(dice, token_of(round_index, first + offset), chosen, likely) for offset in range(count))
    if "pipeline" in chosen and dice.random() < _PIPELINES:
        return ConnectionPlan((exchanges,), reading)
    return ConnectionPlan(tuple((item,) for item in exchanges), reading)


def exchange(dice: Random, token: bytes, chosen: frozenset[str], likely: frozenset[str] = frozenset()) -> Exchange:
    """One exchange with some of the chosen behaviours; those that are `likely` more often than others."""
    shapes = sorted(chosen & client_behaviours.SHAPES.keys())
    if "huge" in likely and dice.random() < _ONLY_HUGE:  # nothing else, so that its connection is used again meanwhile
        return _exchange(dice, token, "plain", [], ["huge"])
    shape = dice.choice(shapes) if shapes and dice.random() < _ODD_REQUESTS else "plain"
    manners = [name for name in _SENDING if name in chosen and dice.random() < _ODD_SENDING]
    if shape == "get-body" and dice.random() < _LIKELY:
        manners = ["pieces"]
        likely |= {"cut"}  # a proxy may send it again, if it can
    elif shape == "upload":
        likely |= {"overlapped"}
    behaviours = _answering(dice, chosen, likely) if likely or dice.random() < _ODD_ANSWERS else []
    return _exchange(dice, token, shape, manners, behaviours)


def _exchange(dice: Random, token: bytes, shape: str, manners: list[str], behaviours: list[str]) -> Exchange:
    said = client_behaviours.SHAPES.get(shape, client_behaviours.plain)(dice, token)
    request = client_behaviours.sent(dice, said, manners)
    answer = agent_behaviours.answered(dice, token, request, behaviours)
    return Exchange(token, request, answer, (shape, *manners, *behaviours))


def _answering(dice: Random, chosen: frozenset[str], likely: frozenset[str]) -> list[str]:
    """At most one behaviour of each group: when the agent answers, in which form, how it ends."""
    found = []
    for group in (agent_behaviours.TIMING, agent_behaviours.FORMS, agent_behaviours.ENDINGS, ("pieces",)):
        names = [name for name in group if name in chosen]
        wanted = [name for name in names if name in likely]
        if wanted and dice.random() < _LIKELY:
            found += wanted
        elif names and dice.random() < 0.5:
            found.append(dice.choice(names))
    return found
