"""Notifications as events of their tasks: those of one webhook are a stream, which repeats what other streams show."""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any, ParamSpec, TypeVar

from a2a_tool_capture import Finding
from a2a_tool_capture.recent import RecentKeys
from a2a_tool_capture.wire import TERMINAL_STATES

from ..capture.failures import CAPTURE_FAILED, log_failure
from ..capture.turn_book import TurnBook
from ..memory import of_json
from ..protocol.answers import state_of, task_id_of

logger = logging.getLogger(__name__)
P = ParamSpec("P")
T = TypeVar("T")

_MAX_STREAMS = 10_000
_MAX_UNTAKEN = 100


@dataclass(slots=True, eq=False)
class NotificationStream:
    """The notifications that one webhook received."""

    watcher: Any  # what `TurnBook.watch` returned
    webhook_id: str
    withheld: set[str] = field(default_factory=set)
    """Ids of artifacts that its client has not received (`extension_filter.strip_event`)."""
    ended: bool = False  # whether a notification has shown the end of the task
    task_id: str = ""  # "" as long as it is not known
    shown: bytes = b""  # digest of the last body that the client has received
    _untaken: RecentKeys[bytes] = field(default_factory=lambda: RecentKeys(_MAX_UNTAKEN))
    """Digests of the latest notifications that the client has not taken: the agent may repeat them."""

    def repeats(self, body: bytes) -> bool:
        """Whether a notification repeats one that the client has not taken."""
        digest = digest_of(body)
        repeats = digest in self._untaken
        self._untaken.add(digest)
        return repeats

    def taken(self, body: bytes) -> None:
        """The client has received it: what is equal is another one."""
        self._untaken.discard(digest_of(body))


def digest_of(body: bytes) -> bytes:
    return blake2b(body, digest_size=16).digest()


class NotificationCapture:
    """Feeds the turn book with notifications. Belongs to one event loop. No method raises: an error of capture keeps no
    notification from its client."""

    def __init__(self, book: TurnBook, now: Callable[[], float]) -> None:
        self._book = book
        self._now = now
        self._streams: OrderedDict[str, NotificationStream] = OrderedDict()

    def stream(self, webhook_id: str, *, ended: bool) -> NotificationStream:
        """The stream of a webhook, whose task may have `ended`; the one used least recently ends where there are too
        many."""
        stream = self._streams.get(webhook_id)
        if stream is None:
            watcher = _safely(self._book.watch, notified=webhook_id)
            stream = self._streams[webhook_id] = NotificationStream(watcher, webhook_id, ended=ended)
            if len(self._streams) > _MAX_STREAMS:
                _, oldest = self._streams.popitem(last=False)
                _safely(self._book.end, oldest.watcher, self._now())
        self._streams.move_to_end(webhook_id)
        return stream

    def known(self, webhook_id: str) -> NotificationStream | None:
        return self._streams.get(webhook_id)

    def take(self, stream: NotificationStream, body: bytes, event: dict[str, Any]) -> str:
        """Feed an event; returns the id of its task.

        Nothing is fed that repeats what the client did not take, or that was overtaken by the end of the task: senders
        do not keep the order (a2a-sdk sends concurrently).
        """
        final, task_id = state_of(event) in TERMINAL_STATES, task_id_of(event)
        stream.task_id = stream.task_id or task_id
        if stream.repeats(body) or (stream.ended and not final and "artifactUpdate" not in event):
            return task_id
        if _safely(self._book.feed, stream.watcher, event, self._now(), live=True, size=of_json(body)) is None:
            self.report(stream, CAPTURE_FAILED)
        if final:
            stream.ended = True
            if "task" in event:  # it is the whole task: nothing else has to be waited for
                _safely(self._book.end, stream.watcher, self._now())
                stream.watcher = _safely(self._book.watch, notified=stream.webhook_id)
        return task_id

    def report(self, stream: NotificationStream, finding: Finding) -> None:
        """Add a finding, once, to the last turn of the task."""
        if stream.task_id:
            _safely(self._book.report, stream.task_id, finding, self._now())
        else:
            logger.warning("a notification that names no task: %s", finding.message)


def _safely(step: Callable[P, T], *arguments: P.args, **named: P.kwargs) -> T | None:
    """What a step of capture returns; None where it fails."""
    try:
        return step(*arguments, **named)
    except Exception as error:  # noqa: BLE001  # capture's errors end here
        log_failure(error)
        return None
