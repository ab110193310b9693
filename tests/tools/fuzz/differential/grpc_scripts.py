"""Calls over gRPC, of A2A and of other services. Pure."""

from __future__ import annotations

import gzip
from random import Random
from typing import Any

from a2a.types import Message, Part, Role, SendMessageRequest, StreamResponse
from a2a_tool_capture import METADATA_KEY, URI
from google.protobuf.json_format import ParseDict

from ..values import filler
from .http1 import cut
from .script import TOKEN, AnyStep, Break, Data, End, Exchange, Fields, Head, Interim, Side

_STREAM = b"POST /lf.a2a.v1.A2AService/SendStreamingMessage"
_PATHS = (
    b"/fuzz.Service/Any",
    b"/x/y",
    b"/test.Service/\xff\xfe",
    b"/a//b/../c?d=e;f",
    b"/%2F%00/x",
    b"/",
    b"/grpc.health.v1.Health/Watch",
    b"/lf.a2a.v1.A2AService/NotKnown",
    b"/" + b"p" * 3_000,
)
_METADATA: Fields = (
    (b"x-text", b"a"),
    (b"x-text", b"b, c"),
    (b"x-empty", b""),
    (b"x-raw-bin", b"AAECAw"),
    (b"x-raw-bin", b"AA==,BB"),
    (b"x-tab", b"a\tb"),
    (b"x-control", b"\x01\x7f"),
    (b"x-bytes", b"\xe4\xff"),
    (b"x-under_score.dot", b"1"),
    (b"user-agent", b"odd/1"),
    (b"grpc-previous-rpc-attempts", b"2"),
    (b"authorization", b"Bearer t"),
    (b"traceparent", b"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"),
    (b"a2a-eval-case", b"case"),
    (b"a2a-version", b"1.0"),
    (b"a2a-extensions", b"https://other.example/x"),
    (b"host", b"other.example"),
    (b"grpc-accept-encoding", b"identity,br,gzip"),
    (b"x-long", b"l" * 9_000),
)
_TIMEOUTS = (b"1H", b"99999999H", b"3600S", b"86400000m", b"99999999S")
_STATUSES = (b"0", b"0", b"1", b"5", b"13", b"14", b"16", b"99", b"-1", b"")
_MESSAGES = (b"", b"plain", b"50%25 caf%C3%A9", b"not %zz encoded", b"m" * 5_000)


def call(dice: Random, token: bytes) -> Exchange:
    """Of a service that is not A2A's: bytes both ways, in turns or not."""
    fields = [
        *_metadata(dice),
        (TOKEN, token),
        *([(b"grpc-timeout", dice.choice(_TIMEOUTS))] if dice.random() < 0.4 else []),
    ]
    dice.shuffle(fields)
    types = ((b"content-type", dice.choice((b"application/grpc", b"application/grpc+proto", b"text/plain"))),)
    te = ((b"te", b"trailers"),) if dice.random() < 0.8 else ()
    steps: list[AnyStep] = [Head(by=Side.CLIENT, start=b"POST " + dice.choice(_PATHS), fields=(*te, *types, *fields))]
    turns = [Data(by=Side.CLIENT, data=part) for part in _frames(dice, token, b"q")]
    answer = _answer_head(dice, token)
    says = [Data(by=Side.AGENT, data=part) for part in _frames(dice, token, b"a")]
    ending = _ending(dice)
    if dice.random() < 0.3:  # both at once, each after the other
        steps += [*turns[:1], *answer]
        for mine, other in zip(turns[1:], says, strict=False):
            steps += [mine, other]
        steps += [*turns[1 + len(says) :], End(by=Side.CLIENT), *says[len(turns[1:]) :], *ending]
    else:
        steps += [*turns, End(by=Side.CLIENT), *answer, *says, *ending]
    if dice.random() < 0.1:
        steps = steps[: dice.randrange(1, len(steps))]
        if not any(isinstance(step, Break) for step in steps) and not _is_over(steps) and steps[-1].seen:
            steps.append(Break(by=Side.CLIENT, code=dice.choice((8, 8, 0, 2, 5))))
            return Exchange(token, "gRPC, leaves", tuple(steps))
        return call(dice, token)
    return Exchange(token, "gRPC", tuple(steps))


def _is_over(steps: list[AnyStep]) -> bool:
    return any(isinstance(step, End) and step.by is Side.AGENT for step in steps)


def message(dice: Random, token: bytes) -> Exchange:
    """A streaming message of A2A, whose agent shows tool calls to who asks."""
    name, asking, compressed = token.decode(), dice.random() < 0.3, dice.random() < 0.2
    metadata = [field for field in _metadata(dice) if field[0] != b"a2a-extensions"]
    asked = ((b"a2a-extensions", URI.encode()),) if asking else ()
    version = () if any(field[0] == b"a2a-version" for field in metadata) else ((b"a2a-version", b"1.0"),)
    fields = ((b"te", b"trailers"), (b"content-type", b"application/grpc"), (TOKEN, token), *metadata, *version, *asked)
    request = SendMessageRequest(message=Message(message_id=name, role=Role.ROLE_USER, parts=[Part(text=name)]))
    steps: list[AnyStep] = [Head(by=Side.CLIENT, seen=False, start=_STREAM, fields=fields)]
    parts = cut(dice, _frame(request.SerializeToString()), dice.choice((1, 3)))
    steps += [Data(by=Side.CLIENT, data=part, seen=False) for part in parts]
    coding = ((b"grpc-encoding", b"gzip"),) if compressed else ()
    steps += [End(by=Side.CLIENT), *_answer_head(dice, token, coding)]
    for number in range(dice.choice((1, 1, 4))):
        plain, shown = (_event(dice, name, number, calls=calls) for calls in (False, True))
        frames = [_frame(one, compressed=compressed) if one else b"" for one in (plain, shown)]
        steps.append(Data(by=Side.AGENT, data=frames[0], asked=frames[1]))
    return Exchange(token, "A2A over gRPC", (*steps, *_ending(dice)), asks=True, filtered=not asking)


def _metadata(dice: Random) -> list[tuple[bytes, bytes]]:
    return dice.sample(_METADATA, dice.choice((0, 1, 3, 8)))


def _answer_head(dice: Random, token: bytes, more: Fields = ()) -> list[AnyStep]:
    interim = [Interim(by=Side.AGENT, seen=False, status=b"103", fields=((b"link", b"</s>"),))] * (dice.random() < 0.05)
    passed = [field for field in _metadata(dice) if field[0] not in (b"host", b"a2a-extensions")]
    status = b"200" if more or dice.random() < 0.9 else dice.choice((b"503", b"404"))
    fields = ((b"content-type", b"application/grpc"), (b"x-fuzz-answer", token), *more, *passed)
    return [*interim, Head(by=Side.AGENT, start=status, fields=fields)]


def _ending(dice: Random) -> list[AnyStep]:
    if dice.random() < 0.1:
        return [Break(by=Side.AGENT, code=dice.choice((0, 1, 2, 7, 8, 11, 13, 99)))]
    if dice.random() < 0.05:
        return [End(by=Side.AGENT)]
    passed = [field for field in _metadata(dice) if field[0] not in (b"host", b"a2a-extensions")]
    details = [(b"grpc-status-details-bin", b"CAUSBG9vcHM")] * (dice.random() < 0.2)
    status = [(b"grpc-status", dice.choice(_STATUSES)), (b"grpc-message", dice.choice(_MESSAGES))]
    return [End(by=Side.AGENT, trailers=(*status, *details, *passed))]


def _frames(dice: Random, token: bytes, role: bytes) -> list[bytes]:
    """Messages, cut with no regard to where they begin."""
    sizes = [dice.choice((0, 1, 300, 20_000, 120_000)) for _ in range(dice.choice((0, 1, 1, 4)))]
    data = b"".join(_frame(filler(token, role, size)) for size in sizes)
    if data and dice.random() < 0.1:
        data = data[:-1]  # the last one is cut off
    return cut(dice, data, dice.choice((1, len(sizes) or 1, 3)))


def _frame(content: bytes, *, compressed: bool = False) -> bytes:
    content = gzip.compress(content, mtime=0) if compressed else content
    return bytes([compressed]) + len(content).to_bytes(4, "big") + content


def _event(dice: Random, name: str, number: int, *, calls: bool) -> bytes:
    """b"" for an event that is there for its calls alone, where no client asked."""
    chance = Random(f"{name} {number}")
    kind = chance.choice(("artifact", "artifact", "status", "calls"))
    if kind == "status":
        event: dict[str, Any] = {
            "statusUpdate": {"taskId": name, "contextId": "c", "status": {"state": "TASK_STATE_WORKING"}}
        }
    else:
        artifact: dict[str, Any] = {"artifactId": f"{name}-{number}"}
        if kind == "artifact":
            artifact["parts"] = [{"text": name + "x" * chance.choice((0, 10, 90_000))}]
        elif not calls:
            return b""
        metadata = {"other": 1} if kind == "artifact" and chance.random() < 0.5 else {}
        if calls:
            metadata |= {METADATA_KEY: [{"id": "1", "name": "look_up", "arguments": {"of": name}}]}
            artifact["extensions"] = [URI]
        if metadata:
            artifact["metadata"] = metadata
        event = {"artifactUpdate": {"taskId": name, "contextId": "c", "artifact": artifact}}
    data: bytes = ParseDict(event, StreamResponse()).SerializeToString(deterministic=True)
    unknown = b"\xfa\x3f\x03odd" if chance.random() < 0.3 else b""  # field 1023
    return data + unknown
