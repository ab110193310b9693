"""Reads notifications, and removes tool calls for clients that did not request them. Pure."""

from __future__ import annotations

import base64
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import orjson
from a2a_tool_capture import Finding, Severity
from a2a_tool_capture.json_limits import has_too_many_values
from a2a_tool_capture.spec import strip_headers
from a2a_tool_capture.wire import normalize_event

from ..protocol import extension_filter
from ..protocol.content_coding import decoded_whole
from ..protocol.headers import DIGESTS
from ..protocol.operations import decode_json

RawHeaders = list[tuple[bytes, bytes]]

_JWT = re.compile(rb"(?:[\w-]+ +)?[\w-]+\.([\w=-]+)\.[\w=-]*")
"""The value of a header that is a JWT (RFC 7519), behind the name of its scheme, if any. The group is its payload,
which some senders pad."""
_BODY_DIGEST = re.compile("(body|payload).{0,9}(sha|hash|digest)", re.IGNORECASE)
"""The name of a claim that binds the body."""
_BODY_FIELDS = frozenset({b"content-encoding", b"content-length"})


class WithheldError(ValueError):
    """The notification contains tool calls, and cannot be passed on without them."""


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
        payload = None if has_too_many_values(decoded) else decode_json(decoded)
        event = normalize_event(payload)
    except ValueError:
        decoded, event = body, None
    return Notification(headers, body, decoded, event)


def visible_to_others(notification: Notification, withheld: set[str]) -> tuple[RawHeaders, bytes] | None:
    """Header and body for a client that did not request the extension; None for one that exists for its calls alone.

    `withheld`: as in `extension_filter.strip_event`. Raises WithheldError where tool calls cannot be removed.
    """
    headers = strip_headers(notification.headers)
    encoded = any(name == b"content-encoding" for name, _ in headers)
    if encoded and notification.decoded is notification.body and notification.event is None:
        raise WithheldError("its content coding cannot be decoded, so that it may contain tool calls")
    try:
        clean = extension_filter.strip_event(notification.decoded, None, withheld)
    except extension_filter.UnreadableError as error:
        raise WithheldError(str(error)) from None
    if clean is None:
        return None
    if clean is notification.decoded:
        return headers, notification.body
    if is_signed(headers):
        raise WithheldError("it contains tool calls, and its signature does not allow to remove them")
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
