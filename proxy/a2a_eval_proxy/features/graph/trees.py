"""Trees of turns, from what the store has now."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from a2a_tool_capture import Severity
from a2a_tool_capture.models import epoch_seconds
from a2a_tool_capture.wire import SETTLED_STATES
from tool_call_evaluators.agent_tree import AgentTurn, AskedBy, agent_of

from ...privacy.policy import Privacy
from ...privacy.redactor import lacks_content
from ...scoring.evidence import TurnTrees
from ...store import Store
from ...store.base import TurnJson
from ...store.encoding import name_key
from ...store.reads import LinkedBy, LinkedTurn
from ...turn import NamedIn
from .edges import Edge, TurnFacts, edges_of

MOST_TURNS = 500
"""Maximum number of turns that are read for a tree."""

_MOST_AT_ONCE = 400
"""Of these, by one id: so that turns which other ids name have room, too."""

MOST_SHOWN = 200
MOST_DEPTH = 32

SKEW_S = 0.05
"""The most by which clocks of proxies with one store are taken to differ."""


class Family(NamedTuple):
    """The turns that ids connect with one turn, whether or not they are in its tree, and the edges between them."""

    turns: Mapping[str, TurnJson]
    edges: Mapping[str, Edge]
    is_partial: bool = False
    """Whether there may be turns that were not read: those nearest to the one that was asked for are here."""

    def root_of(self, turn_id: str) -> str:
        """The turn above all others above this one."""
        return list(self.above(turn_id))[-1]

    def children(self) -> dict[str, list[Edge]]:
        """The edges to the turns that each caused, in the order in which these began, by the ids of turns that caused
        some."""
        found: dict[str, list[Edge]] = {}
        for edge in sorted(self.edges.values(), key=lambda edge: (self.turns[edge.child]["started_at"], edge.child)):
            found.setdefault(edge.parent, []).append(edge)
        return found

    def tree_below(self, turn_id: str, *, around: str = "") -> AgentTurn:
        """The tree with this root, cut where it is deeper than `MOST_DEPTH` or has more turns than `MOST_SHOWN`, but
        for the way to the turn `around`."""
        built = _TreeBuilder(self, turn_id, around).built(turn_id)
        began = self.turns[turn_id]["started_at"]
        # What was read reaches back to before it: then what is further away is not below it.
        has_all = any(turn["ended_at"] and turn["ended_at"] < began for turn in self.turns.values())
        return replace(built, is_cut=self.is_partial and not has_all)

    def above(self, turn_id: str) -> Iterator[str]:
        """The turn, and those above it, up to its root."""
        yield turn_id
        while turn_id in self.edges:
            turn_id = self.edges[turn_id].parent
            yield turn_id

    def relations_of(self, turn_id: str) -> dict[str, Any]:
        """`parent` and `children` of a turn as in its JSON, those that there are."""
        found: dict[str, Any] = {}
        if (edge := self.edges.get(turn_id)) is not None:
            found["parent"] = {**_named(self.turns[edge.parent]), **edge.asked.to_dict()}
        if children := self.children().get(turn_id):
            found["children"] = [{**_named(self.turns[edge.child]), **edge.asked.to_dict()} for edge in children]
        return found


def _named(turn: TurnJson) -> dict[str, Any]:
    return {name: turn[name] for name in ("turn_id", "state", "status")} | {"agent": agent_of(turn)}


async def family_of(store: Store, turn_id: str) -> Family | None:
    """The family of a turn, at most `MOST_TURNS`; None where the store does not have the turn. Raises StoreError."""
    first = await store.linked_turn(turn_id)
    if first is None:
        return None
    search = _Search(store, first)
    await search.run()
    skew_s = SKEW_S if store.shared else 0.0
    # In a thread: turns of one trace are compared with each other, and the loop has clients to serve.
    return await asyncio.to_thread(_family, list(search.found.values()), skew_s, search.is_partial)


def _family(found: Sequence[LinkedTurn], skew_s: float, is_partial: bool) -> Family:
    edges = edges_of(list(map(_facts, found)), skew_s)
    return Family({linked.turn["turn_id"]: linked.turn for linked in found}, edges, is_partial)


class StoredTrees(TurnTrees):
    async def below(self, turn_id: str, privacy: Privacy | None = None) -> AgentTurn | None:
        family = await family_of(self._store, turn_id)
        if family is not None and privacy is not None:
            family = family._replace(
                turns={name: dict(privacy.stored_turn(turn)) for name, turn in family.turns.items()}
            )
        return None if family is None else family.tree_below(turn_id)

    async def around(self, turn_id: str) -> AgentTurn | None:
        family = await family_of(self._store, turn_id)
        return None if family is None else family.tree_below(family.root_of(turn_id), around=turn_id)

    async def relations(self, turn_id: str) -> dict[str, Any]:
        family = await family_of(self._store, turn_id)
        return {} if family is None else family.relations_of(turn_id)


class _Search:
    """Follows ids from turn to turn. What is near in the store is near in time: an id may be that of thousands."""

    def __init__(self, store: Store, first: LinkedTurn) -> None:
        self.is_partial = False
        self.found = {first.turn["turn_id"]: first}
        self._store = store
        self._new = [first]
        self._asked: set[tuple[LinkedBy, str]] = set()

    async def run(self) -> None:
        while self._new and self._room > 0:
            new, self._new = self._new, []
            for linked in new:
                for column, identifier in self._ids(linked):
                    if identifier and (column, identifier) not in self._asked and self._room > 0:
                        self._asked.add((column, identifier))
                        most = min(self._room, _MOST_AT_ONCE)
                        self._take(await self._store.linked_by(column, identifier, linked.seq, most), most)
            await self._find_named_parents(new)  # of a large trace, they may not be near
            names = {  # how other turns may name them
                name_key(kind, linked.turn[column])
                for linked in new
                for kind, column in _COLUMNS.items()
                if linked.turn[column]
            }
            if names and self._room > 0:
                most = self._room
                self._take(await self._store.linked_by_names(names, new[0].seq, most), most)

    async def _find_named_parents(self, new: Sequence[LinkedTurn]) -> None:
        for turn_id in dict.fromkeys(linked.links.parent_turn_id for linked in new):
            if turn_id and turn_id not in self.found and self._room > 0:
                parent = await self._store.linked_turn(turn_id)
                self._take([] if parent is None else [parent])

    @property
    def _room(self) -> int:
        return MOST_TURNS - len(self.found)

    def _take(self, found: Sequence[LinkedTurn], most: int = MOST_TURNS) -> None:
        """`most`: as many were asked for."""
        self.is_partial = self.is_partial or len(found) >= most
        for linked in found:
            if linked.turn["turn_id"] not in self.found:
                self.found[linked.turn["turn_id"]] = linked
                self._new.append(linked)

    @staticmethod
    def _ids(linked: LinkedTurn) -> Iterator[tuple[LinkedBy, str]]:
        yield "trace_id", linked.turn["trace_id"]
        for kind, identifier in linked.links.names:
            yield _COLUMNS[kind], identifier


_COLUMNS: Mapping[NamedIn, LinkedBy] = {
    NamedIn.PARENT_TASK: "task_id",
    NamedIn.PARENT_CONVERSATION: "conversation_id",
    NamedIn.CHILD_TASK: "task_id",
    NamedIn.CHILD_CONVERSATION: "conversation_id",
}


def _facts(linked: LinkedTurn) -> TurnFacts:
    turn = linked.turn
    ended_at = turn["ended_at"]
    return TurnFacts(
        turn_id=turn["turn_id"],
        agent=agent_of(turn),
        started_at=epoch_seconds(turn["started_at"]),
        ended_at=None if turn["status"] == "open" or ended_at is None else epoch_seconds(ended_at),
        is_answered=_is_answered(turn),
        trace_id=turn["trace_id"],
        parent_span_id=linked.parent_span_id,
        task_id=turn["task_id"],
        conversation_id=turn["conversation_id"],
        links=linked.links,
        spans=turn.get("spans") or (),
    )


def _is_answered(turn: TurnJson) -> bool:
    """Whether the agent was seen to be done: its task has ended or waits, or it answered with a Message."""
    if turn["state"] is not None:
        return turn["state"] in SETTLED_STATES
    return all(finding["severity"] == Severity.INFO for finding in turn["findings"])


class _TreeBuilder:
    """Decides level by level what is shown: of a tree that is too large, the deepest turns are left out."""

    def __init__(self, family: Family, root: str, around: str) -> None:
        self._family = family
        self._children = family.children()
        self._shown: dict[str, list[Edge]] = {}
        room, level, way = MOST_SHOWN - 1, [root], {*family.above(around)} if around else set()
        for _ in range(MOST_DEPTH - 1):
            for turn_id in level:
                below = self._children.get(turn_id, ())
                fitting = max(0, room)
                shown = [edge for at, edge in enumerate(below) if at < fitting or edge.child in way]
                self._shown[turn_id] = shown
                room -= len(shown)
            level = [edge.child for turn_id in level for edge in self._shown[turn_id]]

    def built(self, turn_id: str, asked: AskedBy | None = None) -> AgentTurn:
        shown = self._shown.get(turn_id, [])
        children = [self.built(edge.child, edge.asked) for edge in shown]
        left_out = self._count_below(turn_id) - sum(1 + self._count_below(edge.child) for edge in shown)
        turn = self._family.turns[turn_id]
        return AgentTurn.of(turn, asked, children, left_out, has_content=not lacks_content(turn["user_text"]))

    def _count_below(self, turn_id: str) -> int:
        waiting, count = [turn_id], -1
        while waiting:  # not by recursion: it may be a chain of all turns
            count += 1
            waiting += [edge.child for edge in self._children.get(waiting.pop(), ())]
        return count
