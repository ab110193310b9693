"""Who asked whom: a turn of an agent with the turns of other agents that it caused, as a tree of plain data."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any, NamedTuple

from a2a_tool_capture.models import Finding, ToolCall, epoch_seconds, rfc3339

from .texts import counted, excerpt
from .visibility import Visibility, calls_in, turn_failure_of, visibility_in, visibility_of


class EdgeEvidence(StrEnum):
    """What shows that one turn caused another."""

    TRACE_CONTEXT = "trace_context"
    """The W3C trace context of the request, or spans of the agent that asked."""

    REFERENCE = "reference"
    """An id: the message names a task of the agent that asked, or that agent's answer names the conversation."""


@dataclass(frozen=True, slots=True)
class AskedBy:
    """How it is known which turn asked for this one. `reason` is a clause for people."""

    evidence: EdgeEvidence
    certain: bool
    """False: a guess."""
    reason: str

    def to_dict(self) -> dict[str, Any]:
        return {"evidence": str(self.evidence), "certain": self.certain, "reason": self.reason}


_UNSEEN = visibility_of(None, 0, (), "")


@dataclass(frozen=True, slots=True)
class AgentTurn:
    """One turn of one agent, and the turns that it caused, in the order in which they began.

    Times are seconds since the epoch. `asked` is None at the root. `left_out` counts turns below this one that are not
    among `children`, because the tree was bounded.
    """

    turn_id: str
    agent: str
    started_at: float
    ended_at: float | None = None
    state: str | None = None
    status: str = "done"
    run: str = ""
    case_id: str | None = None
    conversation_id: str = ""
    task_id: str = ""
    user_text: str = ""
    response_text: str = ""
    tool_calls: tuple[ToolCall, ...] = ()
    visibility: Visibility = _UNSEEN
    """Whether its calls are known."""
    failure: str = ""
    """How it failed: the code of a `TurnFailure`; "" where it did not, or is still open."""
    usage: Mapping[str, Any] = field(default_factory=dict)
    """`input_tokens`, `output_tokens` and `cost` of its own agent, as far as they are known."""
    asked: AskedBy | None = None
    children: tuple[AgentTurn, ...] = ()
    left_out: int = 0
    has_content: bool = True
    """False: it was stored without content, so that its texts, arguments and results are unknown."""
    is_cut: bool = False
    """Of a root: whether there may be turns that were not read, since there were too many."""

    @property
    def seconds(self) -> float | None:
        """How long it took; None while it is open."""
        return None if self.ended_at is None else max(0.0, self.ended_at - self.started_at)

    @classmethod
    def of(
        cls,
        turn: Mapping[str, Any],
        asked: AskedBy | None = None,
        children: Sequence[AgentTurn] = (),
        left_out: int = 0,
        *,
        has_content: bool = True,
    ) -> AgentTurn:
        """From a turn in its JSON form (`GET /api/turns/{turn_id}`)."""
        calls: Iterable[ToolCall] = calls_in(turn)
        if not has_content:  # what is stored in their place is none of the agent's
            calls = (replace(call, arguments=None, result=None) for call in calls)
        is_open = turn["status"] == "open"
        findings = [Finding.from_dict(finding) for finding in turn["findings"]]
        failure = None if is_open else turn_failure_of(turn["state"], "", findings)
        return cls(
            **{name: turn[name] for name in _SAME},
            agent=agent_of(turn),
            started_at=epoch_seconds(turn["started_at"]),
            ended_at=None if turn["ended_at"] is None else epoch_seconds(turn["ended_at"]),
            tool_calls=tuple(calls),
            visibility=visibility_in(turn),
            failure="" if failure is None else failure.code,
            usage=turn.get("usage") or {},
            asked=asked,
            children=tuple(children),
            left_out=left_out,
            has_content=has_content,
        )

    def to_dict(self) -> dict[str, Any]:
        """JSON form of the whole tree, as in `GET /api/turns/{turn_id}/tree`: texts and lists of calls are cut."""
        first_failed = first_failed_edge(self)
        return {
            "root": _node(self),
            "totals": totals(self),
            "first_failed": None if first_failed is None else first_failed.turn.turn_id,
        }


_SAME = (
    "turn_id", "state", "status", "run", "case_id", "conversation_id", "task_id", "user_text", "response_text",
)  # fmt: skip


def agent_of(turn: Mapping[str, Any]) -> str:
    """The name of a turn's agent, in its JSON form: that which the settings give it, else its URL."""
    return str(turn.get("agent_name") or turn["agent"])


MOST_TEXT = 200
"""Characters of a message or an answer in JSON forms that are cut."""

_MOST_NAME, _MOST_CALLS = 100, 50


def called_tools(calls: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    """`tool_calls` and `tool_call_count` of JSON forms that are cut, from names and errors."""
    shown = [{"name": excerpt(name, _MOST_NAME), "error": bool(error)} for name, error in calls[:_MOST_CALLS]]
    return {"tool_calls": shown, "tool_call_count": len(calls)}


def _node(turn: AgentTurn) -> dict[str, Any]:
    node: dict[str, Any] = {
        **{name: getattr(turn, name) for name in _SHOWN},
        "failure": turn.failure or None,
        "started_at": rfc3339(turn.started_at),
        "ended_at": None if turn.ended_at is None else rfc3339(turn.ended_at),
        "user_text": excerpt(turn.user_text, MOST_TEXT),
        "response_text": excerpt(turn.response_text, MOST_TEXT),
        **called_tools([(call.name, call.error) for call in turn.tool_calls]),
        "calls": turn.visibility.calls.value,
    }
    if turn.usage:
        node["usage"] = dict(turn.usage)
    if turn.asked is not None:
        node["asked"] = turn.asked.to_dict()
    return {**node, "children": list(map(_node, turn.children)), "left_out": turn.left_out}


_SHOWN = ("turn_id", "agent", "run", "case_id", "conversation_id", "task_id", "state", "status")


class PlacedTurn(NamedTuple):
    """A turn in a tree: the turn that asked for it (None: it is the root), and the number of turns above it."""

    turn: AgentTurn
    parent: AgentTurn | None
    depth: int


def walk(*trees: AgentTurn) -> Iterator[PlacedTurn]:
    """Every turn, each before those that it caused."""
    waiting = [PlacedTurn(tree, None, 0) for tree in reversed(trees)]
    while waiting:
        placed = waiting.pop()
        yield placed
        waiting += [PlacedTurn(child, placed.turn, placed.depth + 1) for child in reversed(placed.turn.children)]


def first_failed_edge(*trees: AgentTurn) -> PlacedTurn | None:
    """The turn whose failure came first: the failed one, below a root, that ended first, the deeper of two. None
    without any."""
    failed = [placed for placed in walk(*trees) if placed.parent is not None and placed.turn.failure]
    ended = [(placed.turn.ended_at or placed.turn.started_at, -placed.depth) for placed in failed]
    return failed[ended.index(min(ended))] if failed else None


def totals(tree: AgentTurn) -> dict[str, Any]:
    """A tree in numbers, as JSON. Tokens and cost are the sums of what is known, None where nothing is; `partly_known`
    names those that are not known of every turn.

    `depth` is the number of turns on the longest way down, the root included, `fan_out` the most turns that one turn
    caused. `guesses` counts edges that are not certain; for `is_cut` see AgentTurn.
    """
    placed = list(walk(tree))
    turns = [one.turn for one in placed]
    asked = [turn.asked for turn in turns if turn.asked is not None]
    sums = {name: _sum(turns, name) for name in ("input_tokens", "output_tokens", "cost")}
    return {
        "turns": len(turns),
        "agents": len({turn.agent for turn in turns}),
        "depth": max(one.depth for one in placed) + 1,
        "fan_out": max(len(turn.children) for turn in turns),
        "edges": len(asked),
        "guesses": sum(not one.certain for one in asked),
        "failed": sum(bool(turn.failure) for turn in turns),
        "tool_calls": sum(len(turn.tool_calls) for turn in turns),
        "left_out": sum(turn.left_out for turn in turns),
        "seconds": tree.seconds,
        **sums,
        "partly_known": [
            name
            for name, known in sums.items()
            if known is not None and any(name not in turn.usage or turn.usage.get("at_least") for turn in turns)
        ],
        "is_cut": tree.is_cut,
    }


def _sum(turns: Sequence[AgentTurn], name: str) -> int | float | None:
    known = [turn.usage[name] for turn in turns if name in turn.usage]
    return sum(known) if known else None


def certain_part(tree: AgentTurn) -> AgentTurn:
    """The tree without what is in it by a guess."""
    certain = [certain_part(child) for child in tree.children if child.asked is not None and child.asked.certain]
    return replace(tree, children=tuple(certain))


def what_is_unsure(*trees: AgentTurn) -> str:
    """Why there may be other turns below the roots than the certain ones, as a clause for people; "" if nothing says
    so.

    An agent that is asked past the proxy is not seen at all.
    """
    placed = list(walk(*trees))
    below = [one.turn for one in placed if one.parent is not None]
    guesses = [turn for turn in below if turn.asked is not None and not turn.asked.certain]
    if guesses:
        return f"that {guesses[0].agent} was asked in turn {guesses[0].turn_id} is a guess"
    if unfinished := [turn for turn in below if turn.status == "open"]:
        return f"turn {unfinished[0].turn_id} of {unfinished[0].agent} is not over"
    if any(tree.is_cut for tree in trees):
        return "the tree may have more turns than were read"
    left_out = sum(one.turn.left_out for one in placed)
    return f"{counted(left_out, 'turn')} of the tree were left out" if left_out else ""


def calls_of_all(
    own: Iterable[ToolCall | Mapping[str, Any]], unseen: str | None, tree: AgentTurn | None
) -> tuple[list[ToolCall], str | None]:
    """The calls of a turn and of all turns that it caused, in the order in which they were seen, and why they are
    unknown (None: they are all known).

    Raises ValueError for a malformed call.
    """
    calls = [call if isinstance(call, ToolCall) else ToolCall.from_dict(call) for call in own]
    if tree is None:
        return calls, unseen or "the turns that this one caused are not known"
    seen = [(_seen_at(call, tree), call) for call in calls]
    reasons = [unseen] if unseen else []
    for placed in walk(certain_part(tree)):
        if placed.parent is not None:
            seen += [(_seen_at(call, placed.turn), call) for call in placed.turn.tool_calls]
            if hidden := placed.turn.visibility.unknown:
                reasons.append(f"those of {placed.turn.agent}: {hidden}")
    if unsure := what_is_unsure(tree):
        reasons.append(unsure)
    ordered = sorted(seen, key=lambda item: item[0])  # stable: those of one agent stay in order
    return [call for _, call in ordered], reasons[0] if reasons else None


def _seen_at(call: ToolCall, turn: AgentTurn) -> float:
    if call.started_at is not None:
        return call.started_at.timestamp()
    return turn.started_at if call.first_seen_at is None else call.first_seen_at
