"""Operations of A2A over HTTP, whose agent shows tool calls to whoever asks for them. Pure.

A client that did not ask must get, byte for byte, what the agent says where no client asks.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import zlib
from base64 import b64encode
from dataclasses import dataclass
from random import Random
from typing import Any

from a2a_tool_capture import METADATA_KEY, URI

from .http1 import cut
from .plain_scripts import token_field
from .script import AUTHORITY, AnyStep, Data, End, Exchange, Fields, Head, Side

OPERATIONS = {
    "SendMessage": "message/send",
    "SendStreamingMessage": "message/stream",
    "GetTask": "tasks/get",
    "SubscribeToTask": "tasks/resubscribe",
    "CancelTask": "tasks/cancel",
    "ListTasks": "tasks/list",
}
"""Methods of JSON-RPC in 1.0 and 0.3 whose responses may show tool calls."""

_PATHS = (b"POST /message:send", b"POST /tenant/v1/message:stream", b"GET /tasks/t-%b", b"POST /tasks/t-%b:cancel")
_OTHERS = ("acme/own", "SetTaskSomething", "GetAuthenticatedExtendedCards", "message/sends")
_SHAPES = ("document", "events", "text")


@dataclass(frozen=True)
class Unit:
    """A part of a body that arrives separately: `plain` where no client asked, b"" for what is then not there."""

    plain: bytes
    asked: bytes
    seen: bool = True

    @classmethod
    def same(cls, content: bytes) -> Unit:
        return cls(content, content)


def operation(dice: Random, token: bytes) -> Exchange:
    """Any operation, or a method that the proxy does not know, with a response in any shape."""
    known = dice.random() < 0.8
    legacy = dice.random() < 0.4
    asking = dice.random() < 0.2
    fields: list[tuple[bytes, bytes]] = [(b"Host", AUTHORITY), *token_field(dice, token)]
    if not legacy or dice.random() < 0.5:
        fields.append((b"A2A-Version", b"0.3" if legacy else b"1.0"))
    if asking:
        fields.append((dice.choice((b"A2A-Extensions", b"X-A2A-Extensions")), URI.encode()))
    elif dice.random() < 0.2:
        fields.append((b"A2A-Extensions", b"https://other.example/x"))
    start, body = _request(dice, token, legacy=legacy, known=known)
    if body:
        fields.append((b"Content-Type", dice.choice((b"application/json", b"application/a2a+json", b"text/plain"))))
    if dice.random() < 0.2:
        fields.append((b"Accept-Encoding", dice.choice((b"br, gzip;q=0.5, zstd", b"br", b"gzip, deflate"))))
    dice.shuffle(fields)
    shape = dice.choice(_SHAPES)
    head = Head(by=Side.CLIENT, seen=False, start=start, fields=tuple(fields), framing=_framing(dice) if body else b"")
    sent = [Data(by=Side.CLIENT, data=part, seen=False) for part in cut(dice, body, dice.choice((1, 1, 4)))]
    response = _response(dice, token.decode(), shape, calls=known)
    json_like = shape != "text"
    steps = (head, *sent, End(by=Side.CLIENT), *response)
    return Exchange(
        token, f"{shape} to {start[:40]!r}", steps, asks=known, filtered=(known or json_like) and not asking
    )


# ── requests ────────────────────────────────────────────────────────────────────────────────────────────────


def _request(dice: Random, token: bytes, *, legacy: bool, known: bool) -> tuple[bytes, bytes]:
    """`METHOD TARGET`, and the body."""
    if known and dice.random() < 0.3:
        path = dice.choice(_PATHS)
        start = path % token if b"%b" in path else path
        return start, b"" if start.startswith(b"GET") else _json(dice, {"message": _message(token.decode())})
    names = dice.choice(list(OPERATIONS.items())) if known else (dice.choice(_OTHERS),) * 2
    params: dict[str, Any] = {"id": f"t-{token.decode()}"}
    if "essage" in names[0]:
        params = {"message": _message(token.decode())}
    call = {"jsonrpc": "2.0", "id": dice.choice((1, "x", None, 10**30, 1.5)), "method": names[legacy], "params": params}
    items = list((call | {"acme": {"deep": [{}] * 3}}).items())
    dice.shuffle(items)
    return b"POST " + dice.choice((b"/", b"/rpc", b"/a/b?c=d")), _json(dice, dict(items))


def _message(name: str) -> dict[str, Any]:
    return {"messageId": name, "role": "ROLE_USER", "parts": [{"text": name}]}


def _framing(dice: Random) -> bytes:
    return dice.choice((b"content-length", b"content-length", b"transfer-encoding"))


def _json(dice: Random, value: Any) -> bytes:
    """In one of several spellings."""
    separators = dice.choice(((", ", ": "), (",", ":"), (" ,  ", " : ")))
    indent = dice.choice((None, None, None, 2, "\t"))
    return json.dumps(value, separators=separators, indent=indent, ensure_ascii=dice.random() < 0.5).encode()


# ── responses ───────────────────────────────────────────────────────────────────────────────────────────────


def _response(dice: Random, name: str, shape: str, *, calls: bool) -> list[AnyStep]:
    make = {"events": _events, "text": _text}.get(shape, _document)
    units, media_type = make(dice, name, calls)
    fields: list[tuple[bytes, bytes]] = [(b"x-fuzz-answer", name.encode()), (b"Content-Type", media_type)]
    asked_fields: list[tuple[bytes, bytes]] = []
    framing = dice.choice((b"content-length", b"transfer-encoding", b"transfer-encoding", b"close"))
    whole = Unit(b"".join(unit.plain for unit in units), b"".join(unit.asked for unit in units))
    held = shape == "document" or (framing == b"content-length" and shape != "events")
    if shape in ("document", "events") and dice.random() < 0.15:
        coding, encode = dice.choice(((b"gzip", _gzip), (b"deflate", zlib.compress)))
        whole = Unit(encode(whole.plain), encode(whole.asked))
        units, held = [whole], True
        fields.append((b"Content-Encoding", coding))
    elif shape == "document" and dice.random() < 0.1:
        held = True
        digests = [b"sha-256=:%b:" % b64encode(hashlib.sha256(body).digest()) for body in (whole.plain, whole.asked)]
        fields.append((b"Content-Digest", digests[0]))
        asked_fields = [field for field in fields if field[0] != b"Content-Digest"] + [(b"Content-Digest", digests[1])]
    if dice.random() < 0.5:  # the agent says that it was asked
        asked_fields = [*(asked_fields or fields), (b"A2A-Extensions", URI.encode())]
    status = dice.choice((b"200", b"200", b"200", b"400", b"500")) if shape == "document" else b"200"
    head = Head(
        by=Side.AGENT,
        seen=not held,
        start=status,
        fields=tuple(fields),
        asked=tuple(asked_fields) or None,
        framing=framing,
    )
    steps: list[AnyStep] = [head]
    for unit in units:
        steps += _cut_unit(dice, unit, seen=unit.seen and not held)
    return [*steps, End(by=Side.AGENT)]


def _cut_unit(dice: Random, unit: Unit, *, seen: bool) -> list[AnyStep]:
    """At once, or in two halves, where no peer may wait for the first."""
    if not unit.plain:
        return [Data(by=Side.AGENT, data=b"", asked=unit.asked, seen=False)]
    if dice.random() < 0.75 or min(len(unit.plain), len(unit.asked)) < 2:
        return [Data(by=Side.AGENT, data=unit.plain, asked=unit.asked, seen=seen)]
    halves = [(content[: len(content) // 2], content[len(content) // 2 :]) for content in (unit.plain, unit.asked)]
    return [
        Data(by=Side.AGENT, data=halves[0][half], asked=halves[1][half], seen=seen and half == 1) for half in (0, 1)
    ]


def _type(media_type: bytes) -> Fields:
    return ((b"Content-Type", media_type),)


def _gzip(data: bytes) -> bytes:
    return gzip.compress(data, mtime=0)


def _document(dice: Random, name: str, calls: bool) -> tuple[list[Unit], bytes]:
    """A response object."""
    only = _object(dice, name, 0, calls=calls)
    json_type = dice.choice((b"application/json", b"application/json; charset=utf-8", b"application/a2a+json"))
    if only.plain != only.asked:
        return [only], json_type
    blanks = [Unit.same(dice.choice((b" ", b"\r\n", b"\t\t")))] if dice.random() < 0.2 else []
    return [*blanks, only, *([Unit.same(b"\n")] if dice.random() < 0.3 else [])], json_type


def _text(dice: Random, name: str, calls: bool) -> tuple[list[Unit], bytes]:
    """Text that nearly names the extension."""
    media_type = dice.choice((b"text/plain", b"application/x-own", b"application/octet-stream"))
    words = [name, "}", "https://arksim.arklex.ai/a2a/tool", " box\n", "a2a", "\0", "\\u0068"]
    texts = [dice.choice(words) + name for _ in range(dice.choice((1, 3)))]
    return [Unit.same(b"text " + text.encode() + b".") for text in texts], media_type


def _object(dice: Random, name: str, number: int, *, calls: bool) -> Unit:
    """A response object, its result with tool calls for who asked. For others it is spelt as the proxy spells it."""
    before = dice.getstate()
    plain = {"jsonrpc": "2.0", "id": 1, "result": _result(dice, name, number, calls=False)}
    dice.setstate(before)
    asked = {"jsonrpc": "2.0", "id": 1, "result": _result(dice, name, number, calls=calls)}
    content = _json(dice, asked)
    return Unit(content if plain == asked else _compact(plain), content)


def _compact(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()


def _result(dice: Random, name: str, number: int, *, calls: bool) -> dict[str, Any]:
    task_id = f"t-{name}"
    kind = dice.choice(("artifact", "artifact", "artifact", "task", "status", "message", "unknown", "timeline"))
    if kind == "task":
        return {"task": _task(dice, name, calls=calls)["task"]}
    if kind == "artifact":
        artifact = _artifact(dice, f"{name}-{number}", calls=calls)
        return {"artifactUpdate": {"taskId": task_id, "contextId": "c", "artifact": artifact, "lastChunk": True}}
    if kind == "status":
        return {"statusUpdate": {"taskId": task_id, "contextId": "c", "status": {"state": "TASK_STATE_WORKING"}}}
    if kind == "message":
        return {"message": _message(name) | {"role": "ROLE_AGENT", "metadata": {"a": 1e400, "b": "\u2028 é"}}}
    if kind == "timeline":
        return {"acmeTimeline": [{"artifact": _artifact(dice, name, calls=False)}]}
    return {"acme": {"of": name, "text": "x" * dice.choice((0, 5_000, 200_000)), "n": [1, 1.0, -0.0, 10**40]}}


def _task(dice: Random, name: str, *, calls: bool) -> dict[str, Any]:
    artifacts = [_artifact(dice, f"{name}-a", calls=calls)]
    status = {"state": "TASK_STATE_COMPLETED"}
    return {"task": {"id": f"t-{name}", "contextId": "c", "status": status, "artifacts": artifacts}}


def _artifact(dice: Random, name: str, *, calls: bool) -> dict[str, Any]:
    items: list[tuple[str, Any]] = [
        ("artifactId", name),
        ("parts", [{"text": f'{name} " \\ é \n'}]),
        ("acme", {"a": []}),
    ]
    metadata: dict[str, Any] = {"other": {"a": [1, "}"]}} if dice.random() < 0.5 else {}
    extensions = ["https://other.example/x"] if dice.random() < 0.5 else []
    first, at, at_too = dice.random() < 0.5, dice.randrange(len(items) + 1), dice.randrange(len(items) + 1)
    if calls:
        own = {METADATA_KEY: [{"id": "1", "name": "look_up", "arguments": {"a": '}]\\"'}, "result": name}]}
        metadata = own | metadata if first else metadata | own
        extensions = [URI, *extensions] if first else [*extensions, URI]
    if metadata:
        items.insert(at, ("metadata", metadata))
    if extensions:
        items.insert(at_too if at_too <= at else at_too + bool(metadata), ("extensions", extensions))
    return dict(items)


# ── events ──────────────────────────────────────────────────────────────────────────────────────────────────


def _events(dice: Random, name: str, calls: bool) -> tuple[list[Unit], bytes]:
    """Server-sent events in all their forms."""
    end = dice.choice((b"\n", b"\n", b"\r\n", b"\r"))
    units = [Unit.same(b"\xef\xbb\xbf")] if dice.random() < 0.1 else []
    begun = end != b"\r"  # a CR may be the first half of a line end
    units += [Unit(end, end, seen=begun)] if dice.random() < 0.1 else []
    count = dice.choice((1, 3, 8))
    for number in range(count):
        if dice.random() < 0.2:
            comment = dice.choice((b":", b": ping", b":" + b"c" * 10_000))
            comment += end * dice.choice((1, 2))
            units.append(Unit(comment, comment, seen=begun or comment.endswith(end * 2)))
        units.append(_event(dice, name, number, end, calls=calls, last=number == count - 1))
    return units, dice.choice((b"text/event-stream", b"text/event-stream; charset=utf-8"))


def _event(dice: Random, name: str, number: int, end: bytes, *, calls: bool, last: bool) -> Unit:
    before = [dice.choice((b"id: %d" % number, b"id", b"event: own", b"retry: 10", b"unknown: x", b"id:\xff"))] * (
        dice.random() < 0.3
    )
    after = [dice.choice((b"id: %d" % number, b"event:x"))] * (dice.random() < 0.1)
    closing = b"" if last and dice.random() < 0.3 else end * 2  # the last one may lack its blank line
    if calls and dice.random() < 0.15:  # it exists for its calls alone
        artifact = {"artifactId": f"tool-calls-{number}", "parts": [], "extensions": [URI]}
        artifact["metadata"] = {METADATA_KEY: [{"id": "1", "name": "look_up", "arguments": {}}]}
        update = {"taskId": f"t-{name}", "contextId": "c", "artifact": artifact}
        content = json.dumps({"jsonrpc": "2.0", "id": 1, "result": {"artifactUpdate": update}}).encode()
        return Unit(b"", b"data: " + content + (closing or end * 2))
    if dice.random() < 0.1:
        data = dice.choice((b"not JSON", b"", b"[DONE]", b"{" * 50, b'"%b"' % (b"h" * 300_000)))
        event = end.join([*before, b"data: " + data, b"data", *after]) + closing
        return Unit(event, event, seen=closing != b"")
    unit = _object(dice, name, number, calls=calls)
    # where lines begin with blanks, a filter could not tell which of them belongs to the field
    space = dice.choice((b" ", b" ", b"")) if unit.plain == unit.asked and b"\n" not in unit.plain else b" "
    contents = []
    for content in (unit.plain, unit.asked):
        lines = content.replace(b"\t", b" ").split(b"\n")
        contents.append(end.join([*before, *(b"data:" + space + line for line in lines), *after]) + closing)
    return Unit(*contents, seen=closing != b"")
