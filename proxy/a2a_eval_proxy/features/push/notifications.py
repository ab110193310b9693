"""Notifications: read, without tool calls for clients that did not ask, and as events of their tasks. Pure."""

from __future__ import annotations

import base64
import logging
import re
from collections import OrderedDict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any, ParamSpec, TypeVar

import orjson
from a2a_tool_capture import Finding, Severity
from a2a_tool_capture.json_limits import has_too_many_values
from a2a_tool_capture.recent import RecentKeys
from a2a_tool_capture.spec import strip_headers
from a2a_tool_capture.wire import TERMINAL_STATES, normalize_event

from ...capture.failures import CAPTURE_FAILED, log_failure
from ...capture.turn_book import TurnBook
from ...clock import CLOCK
from ...memory import of_json
from ...protocol import extension_filter
from ...protocol.answers import state_of, task_id_of
from ...protocol.content_coding import decoded_whole
from ...protocol.headers import DIGESTS
from ...protocol.operations import decode_json

RawHeaders = list[tuple[bytes, bytes]]

_JWT = re.compile(rb"(?:[\w-]+ +)?[\w-]+\.([\w=-]+)\.[\w=-]*")
"""The value of a header that is a JWT (RFC 7519), behind the name of its scheme, if any. The group is its payload,
which some senders pad."""
_BODY_DIGEST = re.compile("(body|payload).{0,9}(sha|hash|digest)", re.IGNORECASE)
"""The name of a claim that binds the body."""
_BODY_FIELDS = frozenset({b"content-encoding", b"content-length"})


@dataclass(frozen=True, slots=True)
class Notification:
    """One notification of an agent, read. Header names are in lower case."""

    headers: RawHeaders
    body: bytes
    decoded: bytes  # the body without its content coding
    event: dict[str, Any] | None  # the v1.0 event that it shows, if it shows one


def read_notification(headers: RawHeaders, body: bytes, max_bytes: int) -> Notification:
    """Read a notification: a StreamResponse of 1.0, or a Task of 0.3. Never raises."""
    encoding = b",".join(value for name, value in headers if name == b"content-encoding").decode("latin-1")
    try:
        decoded = decoded_whole(encoding, body, max_bytes)
        event = normalize_event(None if has_too_many_values(decoded) else decode_json(decoded))
    except ValueError:
        decoded, event = body, None
    return Notification(headers, body, decoded, event)


def visible_to_others(notification: Notification, withheld: set[str]) -> tuple[RawHeaders, bytes] | None:
    """Header and body for a client that did not request the extension; None for one that exists for its calls alone.

    `withheld`: as in `extension_filter.strip`. Raises UnreadableError where tool calls cannot be removed.
    """
    headers = strip_headers(notification.headers)
    encoded = any(name == b"content-encoding" for name, _ in headers)
    if encoded and notification.decoded is notification.body and notification.event is None:
        raise extension_filter.UnreadableError("its content coding cannot be decoded: it may contain tool calls")
    clean, _ = extension_filter.strip(notification.decoded, None, withheld=withheld)
    if clean is None:
        return None
    if clean is notification.decoded:
        return headers, notification.body
    if is_signed(headers):
        raise extension_filter.UnreadableError("it contains tool calls, and is signed: they cannot be removed")
    return without_body_fields(headers), clean


def without_body_fields(headers: RawHeaders) -> RawHeaders:
    """Without the fields that describe a body, which is going to be replaced."""
    return [item for item in headers if item[0] not in _BODY_FIELDS | DIGESTS]


def is_signed(headers: RawHeaders) -> bool:
    """Whether a header signs the body: RFC 9421, the names of webhook senders (`x-hub-signature-256`), and a JWT with
    a digest of the body (`request_body_sha256` in A2A's samples, `payload_hash`)."""
    named = any(b"signature" in name or b"jws" in name for name, _ in headers)
    return named or any(_BODY_DIGEST.search(claim) for claims in _jwt_claims(headers) for claim in claims)


def audience_finding(headers: RawHeaders, push_url: str) -> Finding | None:
    """The finding for a JWT whose audience is the proxy's address, which the client will refuse."""
    for claims in _jwt_claims(headers):
        audience = claims.get("aud")
        audiences = audience if isinstance(audience, list) else [audience]
        if any(isinstance(one, str) and one.startswith(push_url) for one in audiences):
            why = "the audience of its JWT is the proxy's address, not the webhook's: with --push pass it is"
            return Finding("push_audience", f"a notification may be refused by the client: {why}", Severity.WARNING)
    return None


def _jwt_claims(headers: RawHeaders) -> Iterator[dict[str, Any]]:
    """The claims of each JWT in a header, such as `Authorization` or `X-A2A-Notification-Token`; not verified."""
    for _, value in headers:
        token = _JWT.fullmatch(value)
        try:
            claims = orjson.loads(base64.urlsafe_b64decode(token[1] + b"==")) if token is not None else None
        except ValueError:
            continue
        if isinstance(claims, dict):
            yield claims


logger = logging.getLogger(__name__)
P = ParamSpec("P")
T = TypeVar("T")

_MAX_STREAMS = 10_000
_MAX_UNTAKEN = 100


@dataclass(slots=True, eq=False)
class NotificationStream:
    reported: Any  # what `TurnBook.follow` returned
    webhook_id: str
    withheld: set[str] = field(default_factory=set)
    """Ids of artifacts that its client has not received (`extension_filter.strip`)."""
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

    def __init__(self, book: TurnBook) -> None:
        self._book = book
        self._streams: OrderedDict[str, NotificationStream] = OrderedDict()

    def stream(self, webhook_id: str, *, ended: bool) -> NotificationStream:
        """The stream of a webhook, whose task may have `ended`; the one used least recently ends where there are too
        many."""
        stream = self._streams.get(webhook_id)
        if stream is None:
            reported = safely(self._book.follow, notified=webhook_id)
            stream = self._streams[webhook_id] = NotificationStream(reported, webhook_id, ended=ended)
            if len(self._streams) > _MAX_STREAMS:
                _, oldest = self._streams.popitem(last=False)
                safely(self._book.end, oldest.reported, CLOCK.now())
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
        try:
            self._book.feed(stream.reported, event, CLOCK.now(), live=True, size=of_json(body))
        except Exception as error:  # noqa: BLE001  # capture's errors end here
            log_failure(error)
            self.report(stream, CAPTURE_FAILED)
        if final:
            stream.ended = True
            if "task" in event:  # it is the whole task: nothing else has to be waited for
                safely(self._book.end, stream.reported, CLOCK.now())
                stream.reported = safely(self._book.follow, notified=stream.webhook_id)
        return task_id

    def report(self, stream: NotificationStream, finding: Finding) -> None:
        """Add a finding, once, to the last turn of the task."""
        if stream.task_id:
            safely(self._book.report, stream.task_id, finding, CLOCK.now())
        else:
            logger.warning("a notification that names no task: %s", finding.message)


def safely(step: Callable[P, T], *arguments: P.args, **named: P.kwargs) -> T | None:
    """What a step of capture returns; None where it fails."""
    try:
        return step(*arguments, **named)
    except Exception as error:  # noqa: BLE001  # capture's errors end here
        log_failure(error)
        return None
