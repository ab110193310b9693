"""JSON text that every database and client takes, whatever an agent or an evaluator put into a turn.

What waits to be written waits as such text, in UTF-8: a Python string takes four bytes for each character as soon as
one of them is an emoji, and objects take many times what they say. `Item`s wait in the queue, and are counted in bytes.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import sha256
from itertools import starmap
from typing import Any

import orjson
from a2a_tool_capture.json_limits import mapped

from ..turn import STARTS_TRACE, NamedIn, Turn
from .base import ConversationKey, Evaluations, Limits, Scored, ScoredConversation
from .schema import OUTCOMES

ROW_BYTES = 1_500
"""Memory of a row in addition to its JSON: about what CPython takes for the objects and the short texts."""


@dataclass(slots=True)
class EncodedTurn:
    """A turn as it waits to be written. `body` is its JSON, times are seconds since the epoch.

    One with `results` is done."""

    turn_id: str
    run: str
    case_id: str | None
    conversation_id: str
    task_id: str
    status: str
    started_at: float
    ended_at: float | None
    trace_id: str
    """"" where it is the `turn_id`: that is indexed already."""
    agent: str
    """See `Turn.agent_key`."""
    links: str
    """See `links_text`."""
    names: Sequence[str]
    """See `name_key`."""
    body: bytes
    results: EncodedResults | None = None

    @property
    def size(self) -> int:
        """Bytes of memory, about."""
        return self.stored_bytes + len(self.links) + ROW_BYTES

    @property
    def stored_bytes(self) -> int:
        """Bytes of its JSON and results."""
        return len(self.body) + (0 if self.results is None else len(self.results.json))

    def columns(self) -> dict[str, Any]:
        """What is stored of the turn, by the name of the column."""
        return {
            "turn_id": self.turn_id,
            "run": self.run,
            "case_id": self.case_id,
            "conversation_id": self.conversation_id,
            "task_id": self.task_id,
            "status": self.status if self.results is None else "done",
            "started_at": self.started_at,
            "ended_at": self.ended_at,
            "trace_id": self.trace_id,
            "links": self.links,
            "agent": self.agent,
            "size": self.stored_bytes,
            "body": self.body.decode(),
            **(_NO_RESULTS if self.results is None else self.results.columns()),
        }


@dataclass(slots=True)
class EncodedResults:
    """Evaluation results as JSON, and how many have each of the `OUTCOMES`."""

    json: bytes
    counts: Mapping[str, int]

    def columns(self) -> dict[str, Any]:
        """What is stored of the results, by the name of the column."""
        return {"evaluations": self.json.decode(), **self.counts}


@dataclass(slots=True)
class EncodedScored:
    """See `Scored`."""

    turn_id: str
    results: EncodedResults
    merged: EncodedTurn | None

    @property
    def size(self) -> int:
        return len(self.results.json) + ROW_BYTES + (self.merged.size if self.merged else 0)


@dataclass(frozen=True, slots=True)
class EncodedConversation:
    """See `ScoredConversation`."""

    key: ConversationKey
    turns: int
    results: EncodedResults

    @property
    def size(self) -> int:
        return len(self.results.json) + ROW_BYTES


def encoded_turn(turn: Turn, evaluations: Evaluations | None = None) -> EncodedTurn:
    case_id = None if turn.case_id is None else stored_text(turn.case_id)
    names = stored_text(turn.run), case_id, stored_text(turn.conversation_id), stored_text(turn.task_id)
    body, results = json_bytes(turn.to_dict()), None if evaluations is None else encoded_results(evaluations)
    links = links_text(turn), [] if turn.links is None else list(starmap(name_key, turn.links.names))
    times = turn.started_at, turn.ended_at
    return EncodedTurn(
        turn.turn_id,
        *names,
        turn.status,
        *times,
        "" if turn.trace_id == turn.turn_id else stored_text(turn.trace_id),
        stored_text(turn.agent_key),
        *links,
        body,
        results,
    )


def links_text(turn: Turn) -> str:
    """The links of a turn as JSON, with its `parent_span_id`, below which its spans are; "" where only the store has
    them, or there is nothing to say."""
    if turn.links is None or (turn.links == STARTS_TRACE and not turn.spans):
        return ""
    return json_text({"parent_span_id": turn.parent_span_id, **turn.links.to_dict()})


def name_key(kind: NamedIn, identifier: str) -> str:
    """The form in which what a turn names can be found."""
    return f"{kind} {stored_text(identifier)}"


def encoded_results(evaluations: Evaluations) -> EncodedResults:
    counts = dict.fromkeys(OUTCOMES, 0)
    for result in evaluations:
        if result["status"] in counts:
            counts[result["status"]] += 1
    return EncodedResults(json_bytes(evaluations), counts)


def encoded_scored(scored: Scored) -> EncodedScored:
    merged = None if scored.merged is None else encoded_turn(scored.merged)
    return EncodedScored(scored.turn_id, encoded_results(scored.evaluations), merged)


def encoded_conversation(scored: ScoredConversation) -> EncodedConversation:
    return EncodedConversation(stored_key(scored.key), scored.turns, encoded_results(scored.evaluations))


def stored_key(key: ConversationKey) -> ConversationKey:
    """The key as columns have it: "" for no case, or no agent."""
    return ConversationKey(*(stored_text(part or "") for part in key))


def conversation_key(key: ConversationKey) -> str:
    """Identifies a conversation by its `stored_key`: its names may be of any length, an entry of an index may not."""
    return sha256("\x00".join(part or "" for part in (key if key.agent_name else key[:3])).encode()).hexdigest()


def json_bytes(value: Any) -> bytes:
    """The JSON of `value`, readable for strict parsers, in UTF-8.

    What has no such form comes as near as it can: a lone surrogate as U+FFFD, NaN and the infinities as null, a
    key or value that is no JSON as its `str`, what nests beyond 200 levels as "...".
    """
    try:
        return bytes(memoryview(orjson.dumps(value)))  # a copy: what orjson returns keeps up to four times its memory
    except orjson.JSONEncodeError:  # also for integers beyond 64 bits, which are kept
        return json.dumps(mapped(value, _plain, key=lambda key: utf8_text(str(key))), ensure_ascii=False).encode()


def json_text(value: Any) -> str:
    """As `json_bytes`, as text."""
    return json_bytes(value).decode()


def utf8_text(text: str) -> str:
    """`text` with lone surrogates, which JSON can carry and UTF-8 cannot, as U+FFFD."""
    return text if text.isascii() else text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def stored_text(text: str) -> str:
    """`text` as columns have it: as `utf8_text`, and without U+0000, which PostgreSQL does not store."""
    return text if text.isascii() and "\x00" not in text else utf8_text(text).replace("\x00", "\ufffd")


def _plain(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, set | frozenset):
        return [_plain(item) for item in value]
    return value if value is None or isinstance(value, int | float) else utf8_text(str(value))


_NO_RESULTS = encoded_results([]).columns()


def nothing() -> None:
    """Called after a write for which no caller waits."""


@dataclass(slots=True)
class Item:
    """What is written as a whole: `rows`. `committed` is called afterwards, in the writing thread."""

    rows: Sequence[Any]
    committed: Callable[[], object]
    size: int = field(init=False, default=0)  # bytes of memory, about

    def __post_init__(self) -> None:
        self.size = sum([row.size for row in self.rows])

    @property
    def turns(self) -> int:
        """How many turns it adds."""
        return 0


@dataclass(slots=True)
class Add(Item):
    """Closed or open turns. Those in `raw`, some with `results`, are encoded by the writing thread first."""

    rows: Sequence[EncodedTurn]
    results: Mapping[str, Evaluations] = field(default_factory=dict)
    held: Collection[str] = ()
    raw: Sequence[Turn] = ()
    again: bool = False
    """Whether they replace what the store has of them, closed as well."""

    def __post_init__(self) -> None:
        texts = [len(turn.user_text) + len(turn.response_text) for turn in self.raw]
        self.size = sum(texts) + ROW_BYTES * len(texts)

    @property
    def turns(self) -> int:
        return len(self.rows) + len(self.raw)

    def encode(self) -> None:
        self.rows = [encoded_turn(turn, self.results.get(turn.turn_id)) for turn in self.raw]
        self.raw, self.results = (), {}
        self.size = sum([turn.size for turn in self.rows])


class Finish(Item):
    """Results of turns."""

    rows: Sequence[EncodedScored]


class FinishConversations(Item):
    """Results of conversations."""

    rows: Sequence[EncodedConversation]


class Discard(Item):
    """Ids of turns to delete."""

    rows: Sequence[str]

    def __post_init__(self) -> None:
        """Ids take no memory worth counting."""


@dataclass(slots=True)
class Mark(Item):
    """Reached when everything before it is committed."""

    rows: Sequence[Any] = ()
    committed: Callable[[], object] = nothing
    last: bool = False


@dataclass(frozen=True, slots=True)
class Prune:
    """Done between groups of items: deletes what is beyond these limits."""

    limits: Sequence[Limits]
    reported: Callable[[int | Exception], object] | None = None
    """Receives the number of deleted turns, or why they could not be deleted; None: the log does."""
    size: int = 0
    turns: int = 0


def latest_results(group: Iterable[Item]) -> list[EncodedScored]:
    """One for each turn with results: the last ones, and what was last merged into it."""
    latest: dict[str, EncodedScored] = {}
    for scored in [row for item in group if isinstance(item, Finish) for row in item.rows]:
        before = latest.get(scored.turn_id)
        if before is not None and scored.merged is None:
            scored = replace(scored, merged=before.merged)
        latest[scored.turn_id] = scored
    return list(latest.values())
