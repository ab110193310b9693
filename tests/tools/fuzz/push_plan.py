"""A round of the push relay, planned: which webhooks clients register, what agents send, how clients answer. Pure.

A round is a function of its seed, as in `plan`.
"""

from __future__ import annotations

import gzip
import json
from dataclasses import dataclass
from random import Random
from typing import Any

from a2a_tool_capture import METADATA_KEY, URI

MAX_BODY_BYTES = 1_000_000
"""The proxy's `max_body_bytes`."""

REACTIONS = ("ok", "slow", "huge", "cut", "error", "busy", "gone", "redirect", "closes", "garbage")
"""What clients' endpoints answer. `closes` and `garbage` are no answers."""
NO_ANSWER = frozenset({"closes", "garbage"})
STATUS = {"error": 500, "busy": 503, "gone": 404, "redirect": 307}
"""Of the answers; 200 for others."""

SHAPES = ("send", "stream", "create", "send-0.3", "create-0.3", "rest")
"""How a webhook is registered."""
ANSWERS = ("task", "task", "task", "echo", "error", "message", "garbage")
"""What the agent responds to that."""

WITH_CALLS = ("calls", "task", "task-0.3", "gzip", "truncated", "utf-16", "repeated-key", "escaped", "signed")
PLAIN = ("plain", "plain", "final", "junk", "deep", "dense", "huge", "empty", "gzip-plain")
_KINDS = (*WITH_CALLS, *PLAIN, "too-large", "not-gzip")
_METHODS = (*["POST"] * 12, "PUT", "PATCH", "DELETE", "GET", "HEAD", "OPTIONS", "TRACE")
IN_ORDER = frozenset({"POST", "PUT", "PATCH", "DELETE"})
"""With others, an agent verifies a webhook."""

_DEEP = 3_000
_LEAVES = 0.15
_REPEATS = 0.2
_UNKNOWN = 0.05
_DELETES = 0.3


@dataclass(frozen=True)
class Notification:
    """What an agent sends, `times` times."""

    name: str
    """Unique; the body has it, unless it is empty."""
    kind: str
    method: str
    headers: tuple[tuple[str, str], ...]
    body: bytes
    times: int
    leaves: bool
    """Whether the agent leaves as soon as it has sent it."""
    unknown: bool
    """Whether it goes to an address that no peer has."""

    @property
    def may_be_changed(self) -> bool:
        """Whether a client that did not ask for the extension may get less, or nothing."""
        return self.kind in WITH_CALLS or self.kind == "not-gzip"


@dataclass(frozen=True)
class Webhook:
    token: str
    shape: str
    answer: str
    asked: bool
    reaction: str
    at_once: bool
    """Whether the agent sends all notifications at the same time."""
    deleted: bool
    """Whether the client deletes the configuration before the last notification."""
    notifications: tuple[Notification, ...]

    @property
    def secret(self) -> str:
        """In tool calls alone."""
        return f"SECRET-{self.token}"


@dataclass(frozen=True)
class PushRound:
    seed: int
    index: int
    clients: int
    """How many webhooks are in use at once."""
    webhooks: tuple[Webhook, ...]

    @property
    def exchanges(self) -> int:
        return sum(one.times for webhook in self.webhooks for one in webhook.notifications)


def push_round_of(seed: int, index: int, *, webhooks: int = 120) -> PushRound:
    dice = Random(f"{seed}/{index}/push")
    drawn = tuple(_webhook(Random(f"{seed}/{index}/push/{number}"), f"w{index}-{number}") for number in range(webhooks))
    return PushRound(seed, index, dice.choice((4, 16, 48)), drawn)


def _webhook(dice: Random, token: str) -> Webhook:
    shape, answer = dice.choice(SHAPES), dice.choice(ANSWERS)
    deleted = shape == "create" and answer == "task" and dice.random() < _DELETES
    asked = dice.random() < 0.4
    sent = tuple(_notification(dice, token, number) for number in range(dice.choice((1, 2, 5, 12))))
    return Webhook(token, shape, answer, asked, dice.choice(REACTIONS), dice.random() < 0.5, deleted, sent)


def _notification(dice: Random, token: str, number: int) -> Notification:
    kind, name = dice.choice(_KINDS), f"n-{token}-{number}-"
    method = dice.choice(_METHODS)
    headers = [("x-note", name)]
    if kind in ("gzip", "gzip-plain", "not-gzip"):
        headers.append(("content-encoding", "gzip"))
    if kind == "signed":
        headers.append(("x-hub-signature-256", "sha256=00"))
    body = _body(dice, kind, token, name)
    small = len(body) < 20_000
    return Notification(
        name,
        kind,
        method,
        tuple(headers),
        body,
        times=2 if dice.random() < _REPEATS else 1,
        leaves=small and dice.random() < _LEAVES,
        unknown=dice.random() < _UNKNOWN,
    )


def _body(dice: Random, kind: str, token: str, name: str) -> bytes:
    plain, calls = _event(token, name, secret=False), _event(token, name, secret=True)
    status = {"state": "TASK_STATE_COMPLETED", "message": {"messageId": name, "parts": [{"text": name}]}}
    match kind:
        case "calls" | "signed":
            return _json(calls)
        case "task":
            artifact = calls["artifactUpdate"]["artifact"]
            return _json({"task": {"id": token, "contextId": "c", "status": status, "artifacts": [artifact]}})
        case "task-0.3":
            artifact = {**calls["artifactUpdate"]["artifact"], "parts": [{"kind": "text", "text": name}]}
            return _json(
                {"kind": "task", "id": token, "contextId": "c", "status": {"state": "working"}, "artifacts": [artifact]}
            )
        case "gzip":
            return gzip.compress(_json(calls), mtime=0)
        case "gzip-plain":
            return gzip.compress(_json(plain), mtime=0)
        case "truncated":
            return _json(calls)[: -dice.randint(1, 6)]
        case "utf-16":
            return json.dumps(calls).encode("utf-16")
        case "repeated-key":
            text = json.dumps(calls)
            return f'{text[:-1]}, "artifactUpdate": {json.dumps(plain["artifactUpdate"])}}}'.encode()
        case "escaped":
            return _json(calls).replace(URI.encode(), "".join(f"\\u{ord(one):04x}" for one in URI).encode())
        case "final":
            return _json({"statusUpdate": {"taskId": token, "contextId": "c", "status": status}})
        case "junk" | "not-gzip":
            return name.encode() + dice.randbytes(dice.choice((3, 400)))
        case "deep":
            return _json({"n": name}) + b"[" * _DEEP
        case "dense":
            return b'["%b"%b]' % (name.encode(), b",0" * 200_000)
        case "huge":
            return _json({**plain, "padding": "p" * (MAX_BODY_BYTES - 10_000)})
        case "too-large":
            return _json({**plain, "padding": "p" * MAX_BODY_BYTES})
        case "empty":
            return b""
        case _:
            return _json(plain)


def _event(token: str, name: str, *, secret: bool) -> dict[str, Any]:
    artifact: dict[str, Any] = {"artifactId": f"a-{name}", "parts": [{"text": name}]}
    if secret:
        call = {"id": name, "name": f"SECRET-{token}", "arguments": {"q": f"SECRET-{token}"}}
        artifact |= {"metadata": {METADATA_KEY: [call]}, "extensions": [URI]}
    return {"artifactUpdate": {"taskId": token, "contextId": "c", "artifact": artifact}}


def _json(value: Any) -> bytes:
    return json.dumps(value).encode()
