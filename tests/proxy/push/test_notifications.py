"""What of a notification the client of a webhook may receive."""

from __future__ import annotations

import base64
import gzip
import json
from typing import Any

import pytest
from a2a_eval_proxy.features.push.notifications import (
    audience_finding,
    is_signed,
    read_notification,
    visible_to_others,
)
from a2a_eval_proxy.protocol.extension_filter import UnreadableError
from a2a_tool_capture import METADATA_KEY, URI
from hypothesis import given
from hypothesis import strategies as st

JSON = (b"content-type", b"application/a2a+json")
GZIP = (b"content-encoding", b"gzip")
CALLS = {METADATA_KEY: [{"id": "1", "name": "search"}]}
LIMIT = 100_000


def update(**artifact: Any) -> bytes:
    content = {"artifactId": "a", **artifact}
    event = {"artifactUpdate": {"taskId": "t", "contextId": "c", "artifact": content}}
    return json.dumps(event, separators=(",", ":")).encode()


def jwt(claims: Any) -> bytes:
    return b"e30." + base64.urlsafe_b64encode(json.dumps(claims).encode()).rstrip(b"=") + b".c2ln"


PLAIN = update(parts=[{"text": "hi"}])
WITH_CALLS = update(parts=[{"text": "hi"}], metadata=CALLS, extensions=[URI])
ONLY_CALLS = update(parts=[], metadata=CALLS, extensions=[URI])
BOUND = (b"authorization", b"Bearer " + jwt({"iat": 1, "request_body_sha256": "00"}))
"""As the senders of A2A's samples sign a notification."""


def seen(body: bytes, *headers: tuple[bytes, bytes]) -> tuple[list[tuple[bytes, bytes]], bytes] | None:
    return visible_to_others(read_notification(list(headers), body, LIMIT), set())


@pytest.mark.parametrize("body", [PLAIN, b"", b"{}", b"\xff", b"not JSON"])
def test_what_names_no_tool_calls_passes_as_it_is(body: bytes) -> None:
    signed = (b"x-signature", b"1")
    assert seen(body, JSON, signed) == ([JSON, signed], body)


def test_tool_calls_are_removed_and_digests_with_them() -> None:
    digest, activated = (b"content-digest", b"sha-256=:AA==:"), (b"a2a-extensions", URI.encode())
    assert seen(WITH_CALLS, JSON, digest, activated) == ([JSON], PLAIN)
    assert seen(ONLY_CALLS, JSON) is None


def test_compressed_notifications_are_read() -> None:
    assert seen(gzip.compress(PLAIN), JSON, GZIP) == ([JSON, GZIP], gzip.compress(PLAIN))
    assert seen(gzip.compress(WITH_CALLS), JSON, GZIP) == ([JSON], PLAIN)
    notification = read_notification([GZIP], gzip.compress(PLAIN), LIMIT)
    assert notification.event == json.loads(PLAIN)


@pytest.mark.parametrize(
    ("body", "header"),
    [
        (WITH_CALLS, (b"x-hub-signature-256", b"sha256=00")),
        (WITH_CALLS, (b"signature-input", b"sig=()")),
        (WITH_CALLS, BOUND),
        (WITH_CALLS[:-1], JSON),
        (PLAIN, (b"content-encoding", b"br")),
        (PLAIN, GZIP),
        (gzip.compress(b" " * LIMIT + WITH_CALLS), GZIP),
    ],
)
def test_what_cannot_be_cleaned_is_withheld(body: bytes, header: tuple[bytes, bytes]) -> None:
    with pytest.raises(UnreadableError):
        seen(body, header)


def test_a_task_of_0_3_is_an_event() -> None:
    task = {"kind": "task", "id": "t", "contextId": "c", "status": {"state": "completed"}}
    event = read_notification([], json.dumps(task).encode(), LIMIT).event
    assert event is not None
    assert event["task"]["status"]["state"] == "TASK_STATE_COMPLETED"


@given(st.binary(max_size=200), st.sampled_from([b"", b"gzip", b"deflate", b"br", b"gzip, gzip"]))
def test_nothing_is_too_odd_to_be_read(body: bytes, coding: bytes) -> None:
    notification = read_notification([(b"content-encoding", coding)], body, LIMIT)
    assert notification.body == body


@pytest.mark.parametrize("audience", ["https://proxy/push/abc", ["x", "https://proxy/push/abc"]])
@pytest.mark.parametrize("scheme", [b"Bearer ", b"bearer "])
def test_a_jwt_for_the_proxys_address_is_found(audience: Any, scheme: bytes) -> None:
    header = (b"authorization", scheme + jwt({"aud": audience, "iss": "agent"}))
    found = audience_finding([header], "https://proxy/push")
    assert found is not None
    assert found.code == "push_audience"
    assert "abc" not in found.message


@pytest.mark.parametrize(
    "header",
    [
        *((name, b"") for name in (b"x-hub-signature-256", b"signature", b"x-jws", b"webhook-signature")),
        BOUND,
        (b"authorization", b"bearer " + jwt({"iss": "agent", "payload_hash": "00"})),
        (b"x-a2a-notification-token", jwt({"request_body_sha256": "00"})),
    ],
)
def test_signatures(header: tuple[bytes, bytes]) -> None:
    assert is_signed([JSON, header])
    assert seen(PLAIN, header) == ([header], PLAIN)


@pytest.mark.parametrize(
    "value",
    [
        jwt({"aud": "https://client", "jti": "request_body_sha256"}),
        jwt(["request_body_sha256"]),
        b"a.b.c",
        b"e30.",
        b"",
    ],
)
def test_a_token_that_names_no_body_is_no_signature(value: bytes) -> None:
    assert not is_signed([JSON, (b"authorization", b"Bearer " + value), (b"x-a2a-notification-token", value)])
