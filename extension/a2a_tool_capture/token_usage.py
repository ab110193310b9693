"""Reads the tokens that agents on google-adk and kagent state in their answers. Sans-io.

Two kinds of statements, in the metadata of events, status messages, artifacts and their parts, or of the task:

- `kagent_usage_total`: the sum of the task so far, stated again whenever it stops (kagent, pull request 2461). The
  tokens of a turn are the latest sum without that at its beginning.
- `adk_usage_metadata`, `kagent_usage_metadata`: the tokens of one call of a model. Chunks of a stream repeat them: they
  are marked as partial, or share the artifact of the whole answer, whose latest statement counts. The tokens of a turn
  are the sum over the calls of models. The metadata of a task has only the last one.

Sums go before single calls, and both are never added.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Any, NamedTuple

TOTAL = "kagent_usage_total"
_CALLS = ("adk_usage_metadata", "kagent_usage_metadata")
STATEMENTS = frozenset({TOTAL, *_CALLS})
"""Members of metadata that state tokens: most metadata has none."""
_PARTIAL = ("adk_partial", "kagent_partial", "kagent_adk_partial")
_EVENT_IDS = ("adk_event_id", "kagent_event_id")

_HOLDERS = ("artifactUpdate", "statusUpdate", "artifact", "history", "status", "message", "artifacts", "parts")
"""Members of events, tasks, messages and artifacts that lead to metadata."""

MAX_STATEMENTS = 10_000
"""Maximum number of model calls whose tokens are kept per task."""

MAX_TOKENS = 2**53
"""Of one statement: the largest number that is exact as a float, too."""

AMOUNTS = ("input_tokens", "output_tokens", "total_tokens")


class _Statement(NamedTuple):
    """The tokens of one call of a model: `key` says what metadata it was in, `event` the id of google-adk's event."""

    key: str
    event: Hashable
    tokens: Mapping[str, int]


class TokenUsage:
    """The tokens that the events of one task state. Never raises on JSON-shaped input."""

    def __init__(self) -> None:
        self._calls: dict[Hashable, _Statement] = {}
        """By what they were read from: an artifact, or an event."""
        self._before: Mapping[Hashable, _Statement] = {}
        """Those of earlier turns."""
        self._last: _Statement | None = None
        """In the metadata of a task."""
        self._total: Mapping[str, int] | None = None
        self._start: Mapping[str, int] = {}
        self._model = ""
        self._earlier_elsewhere = False

    def begin_turn(self) -> None:
        """What is known now belongs to earlier turns."""
        self._before = dict(self._calls)
        self._last = None
        if self._total is not None:
            self._start, self._earlier_elsewhere = self._total, False

    def know_earlier(self) -> None:
        """The task had turns whose statements were not read: what a Task shows may be theirs."""
        self._earlier_elsewhere = True

    def continue_turn_of(self, other: TokenUsage) -> None:
        """Replace `other` in the middle of a turn."""
        self._before, self._start = other._before, other._start
        self._earlier_elsewhere = other._earlier_elsewhere

    def of_turn(self, *, called_tools: bool) -> dict[str, Any] | None:
        """`input_tokens`, `output_tokens`, `total_tokens` and `source`, with `models` and `at_least` where they apply;
        None if nothing is stated.

        `called_tools`: whether the turn has tool calls, so that a model was called more than once.
        """
        if self._total is None and self._last is None and not self._calls:
            return None
        if self._total is not None and not self._earlier_elsewhere:
            grown = {name: self._total[name] - self._start.get(name, 0) for name in self._total}
            tokens = grown if min(grown.values()) >= 0 else dict(self._total)  # else the agent began to count again
            if any(tokens.values()):
                named = {"models": {self._model: tokens}} if self._model else {}
                return {**tokens, **named, "source": TOTAL}
        own = [one for key, one in self._calls.items() if self._before.get(key) != one]
        partly = len(self._calls) >= MAX_STATEMENTS
        known = {one.event for one in self._calls.values()}
        if self._last is not None and not self._earlier_elsewhere and self._last.event not in known:
            partly |= called_tools or bool(own)  # then there were others, which were not seen
            own.append(self._last)
        if not own:
            return None
        distinct = {one.event: one for one in own}.values()
        names = [name for name in AMOUNTS if all(name in one.tokens for one in distinct)]
        summed = {name: sum(one.tokens[name] for one in distinct) for name in names}
        return {**summed, "source": own[-1].key, **({"at_least": True} if partly else {})} if summed else None

    def feed(self, event: Mapping[str, Any]) -> None:
        """Read one v1.0 StreamResponse (`TaskMerger.feed`)."""
        task = event.get("task")
        if isinstance(task, dict):
            metadata = task.get("metadata")
            if isinstance(metadata, dict):
                self._read_total(metadata)
                self._last = _statement(metadata) or self._last
            if self._earlier_elsewhere:
                return
            event = {name: task[name] for name in _HOLDERS if name in task}
        pending: list[tuple[Any, Hashable]] = [(event, None)]
        for holder, place in pending:  # which grows
            if isinstance(holder, list):
                pending += [(one, place) for one in holder]
            elif isinstance(holder, dict) and holder.get("role") not in ("ROLE_USER", "user"):
                within = ("artifact", str(holder["artifactId"])) if "artifactId" in holder else place
                self._metadata(holder.get("metadata"), within)
                pending += [(holder[name], within) for name in _HOLDERS if name in holder]

    def _metadata(self, metadata: Any, place: Hashable = None) -> None:
        """`place`: what may be stated again; None: each event states its own."""
        if not isinstance(metadata, dict):
            return
        self._read_total(metadata)
        if (one := _statement(metadata)) is not None and (place in self._calls or len(self._calls) < MAX_STATEMENTS):
            self._calls[place or one.event] = one

    def _read_total(self, metadata: Mapping[str, Any]) -> None:
        stated = metadata.get(TOTAL)
        if isinstance(stated, dict) and (tokens := _tokens(stated)):
            model = stated.get("modelVersion")
            self._total, self._model = tokens, model if isinstance(model, str) else ""


def _statement(metadata: Mapping[str, Any]) -> _Statement | None:
    if any(metadata.get(key) is True for key in _PARTIAL):
        return None
    for key in _CALLS:
        stated = metadata.get(key)
        if isinstance(stated, dict) and (tokens := _tokens(stated)):
            ids = (metadata[name] for name in _EVENT_IDS if isinstance(metadata.get(name), str))
            return _Statement(key, next(ids, ("tokens", *sorted(tokens.items()))), tokens)
    return None


def _tokens(stated: Mapping[str, Any]) -> dict[str, int]:
    """The tokens in a statement of Gemini's form. What the total has beyond the input is output: thoughts are."""
    read, total = _count(stated.get("promptTokenCount")), _count(stated.get("totalTokenCount"))
    parts = [_count(stated.get(name)) for name in ("candidatesTokenCount", "thoughtsTokenCount")]
    wrote = None if parts == [None, None] else sum(filter(None, parts))
    found: dict[str, int] = {}
    if read is not None:
        read += _count(stated.get("toolUsePromptTokenCount")) or 0
        found["input_tokens"] = read
        if total is not None and total >= read:
            wrote = total - read
    if wrote is not None:
        found["output_tokens"] = wrote
    if total is None and read is not None and wrote is not None:
        total = read + wrote
    return found if total is None else {**found, "total_tokens": total}


def _count(value: Any) -> int | None:
    """A whole number of at least 0, which protobuf makes a float; not one that no agent can have counted."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= MAX_TOKENS:
        return None
    return int(value) if value == int(value) else None
