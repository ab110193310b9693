"""JSON text that every database and client takes, whatever an agent or an evaluator put into a turn.

What waits to be written waits as such text, in UTF-8: a Python string takes four bytes for each character as soon as
one of them is an emoji, and objects take many times what they say. `Item`s wait in the queue, and are counted in bytes.
"""

from __future__ import annotations

import json
import logging
import math
from collections.abc import Callable, Collection, Iterable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from hashlib import sha256
from itertools import starmap
from sys import getsizeof
from typing import Any

import orjson
from a2a_tool_capture import Finding, Severity
from a2a_tool_capture.json_limits import mapped

from ..turn import STARTS_TRACE, NamedIn, Turn
from .base import ConversationKey, Evaluations, Limits, Scored, ScoredConversation
from .schema import OUTCOMES

logger = logging.getLogger(__name__)

ROW_BYTES = 1_500
"""Memory of a row in addition to its JSON: about what CPython takes for the objects and the short texts."""


@dataclass(slots=True)
class EncodedTurn:
    """A turn as it waits to be written."""

    columns: dict[str, Any]
    """What is stored of it, by the name of the column, without `body`. Times are seconds since the epoch."""
    body: bytes
    """Its JSON."""
    names: Sequence[str]
    """See `name_key`."""

    @property
    def turn_id(self) -> str:
        return str(self.columns["turn_id"])

    @property
    def size(self) -> int:
        """Bytes of memory, about."""
        return len(self.body) + getsizeof(self.columns["evaluations"]) + len(self.columns["links"]) + ROW_BYTES


@dataclass(slots=True)
class EncodedScored:
    """See `Scored`. `results` are columns."""

    turn_id: str
    results: dict[str, Any]
    merged: EncodedTurn | None

    @property
    def size(self) -> int:
        return getsizeof(self.results["evaluations"]) + ROW_BYTES + (self.merged.size if self.merged else 0)


@dataclass(frozen=True, slots=True)
class EncodedConversation:
    """See `ScoredConversation`. `results` are columns."""

    key: ConversationKey
    turns: int
    results: dict[str, Any]

    @property
    def size(self) -> int:
        return getsizeof(self.results["evaluations"]) + ROW_BYTES


def encoded_turn(turn: Turn, evaluations: Evaluations | None = None) -> EncodedTurn:
    """One with results is done."""
    body, results = json_bytes(turn.to_dict()), _NO_RESULTS if evaluations is None else result_columns(evaluations)
    columns = {
        "turn_id": turn.turn_id,
        "run": stored_text(turn.run),
        "case_id": None if turn.case_id is None else stored_text(turn.case_id),
        "conversation_id": stored_text(turn.conversation_id),
        "task_id": stored_text(turn.task_id),
        # that of a turn which begins its trace is the turn's id, which is indexed already
        "trace_id": "" if turn.trace_id == turn.turn_id else stored_text(turn.trace_id),
        "agent": stored_text(turn.agent_key),
        "status": turn.status if evaluations is None else "done",
        "started_at": turn.started_at,
        "ended_at": turn.ended_at,
        "size": len(body) + len(results["evaluations"]),
        **results,
        "links": links_text(turn),
    }
    return EncodedTurn(columns, body, [] if turn.links is None else list(starmap(name_key, turn.links.names)))


def encoded_or_unknown(turn: Turn, evaluations: Evaluations | None = None) -> EncodedTurn:
    """As `encoded_turn`. Where that fails, the turn is pending without its content, and its calls are unknown."""
    try:
        return encoded_turn(turn, evaluations)
    except Exception as error:  # the turn is kept without what may have failed
        logger.exception("turn %s could not be encoded; it is stored without its content", turn.turn_id)
        problem = Finding("capture_error", f"the turn could not be stored whole: {error!r}", Severity.ERROR, "store")
    content: dict[str, Any] = {"user_text": "", "response_text": "", "tool_calls": [], "findings": [problem]}
    content |= dict.fromkeys(("usage", "spans", "simulated_user", "world", "links", "user_parts", "approvals"))
    return encoded_turn(replace(turn, **content))


def links_text(turn: Turn) -> str:
    """The links of a turn as JSON, with its `parent_span_id`, below which its spans are; "" where only the store has
    them, or there is nothing to say."""
    if turn.links is None or (turn.links == STARTS_TRACE and not turn.spans):
        return ""
    return json_text({"parent_span_id": turn.parent_span_id, **turn.links.to_dict()})


def name_key(kind: NamedIn, identifier: str) -> str:
    """The form in which what a turn names can be found."""
    return f"{kind} {stored_text(identifier)}"


def result_columns(evaluations: Evaluations) -> dict[str, Any]:
    """Results as JSON, and how many have each of the `OUTCOMES`, by the name of the column."""
    statuses = [result["status"] for result in evaluations]
    return {"evaluations": json_text(evaluations), **{outcome: statuses.count(outcome) for outcome in OUTCOMES}}


def encoded_scored(scored: Scored) -> EncodedScored:
    merged = None if scored.merged is None else encoded_or_unknown(scored.merged)
    return EncodedScored(scored.turn_id, result_columns(scored.evaluations), merged)


def encoded_conversation(scored: ScoredConversation) -> EncodedConversation:
    return EncodedConversation(stored_key(scored.key), scored.turns, result_columns(scored.evaluations))


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


_NO_RESULTS = result_columns([])


def nothing() -> None:
    """Called after a write for which no caller waits."""


@dataclass(slots=True)
class Item:
    """What is written as a whole: `rows`. `committed` is called afterwards, in the writing thread.

    One without rows is reached when everything before it is committed."""

    rows: Sequence[Any] = ()
    committed: Callable[[], object] = nothing
    size: int = field(init=False, default=0)  # bytes of memory, about

    def __post_init__(self) -> None:
        self.size = sum([row.size for row in self.rows])

    @property
    def turns(self) -> int:
        """How many turns it adds."""
        return 0


@dataclass(slots=True)
class Add(Item):
    """Closed or open turns."""

    rows: Sequence[EncodedTurn] = ()
    held: Collection[str] = ()
    again: bool = False
    """Whether they replace what the store has of them, closed as well."""

    @property
    def turns(self) -> int:
        return len(self.rows)


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


class Change(Item):
    """Statements and their parameters, for which nobody waits."""

    rows: Sequence[tuple[str, dict[str, Any]]]

    def __post_init__(self) -> None:
        self.size = ROW_BYTES * len(self.rows)


@dataclass(slots=True)
class Prune(Item):
    """Done between groups of items: deletes what is beyond these limits."""

    limits: Limits = field(default_factory=Limits)
    reported: Future[int] | None = None
    """Receives the number of deleted turns, or why they could not be deleted; None: the log does."""


def latest_results(group: Iterable[Item]) -> list[EncodedScored]:
    """One for each turn with results: the last ones, and what was last merged into it."""
    latest: dict[str, EncodedScored] = {}
    for scored in [row for item in group if isinstance(item, Finish) for row in item.rows]:
        before = latest.get(scored.turn_id)
        if before is not None and scored.merged is None:
            scored = replace(scored, merged=before.merged)
        latest[scored.turn_id] = scored
    return list(latest.values())
