"""What agents do: answers that are ordinary, odd and broken, and when they come. Pure.

An answer is a list of steps. Everything the agent says of itself is in its bytes, so the script of a failing exchange
is what an agent must do to see it again.
"""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

from .values import (
    ANSWER_HEADER,
    Answer,
    Answered,
    Close,
    Pause,
    ReadBody,
    Request,
    Reset,
    Send,
    Step,
    Unasked,
    filler,
    stray_of,
)

_HUGE = 3_000_000
_BUFFERS = (3_700_000, 4_100_000)
"""About what the buffers of a Linux host and of a proxy take for a client that does not read."""

_SMALL = 16_384

TIMING = ("late", "early", "overlapped", "unread")
"""When it answers: late; without having read; while it still reads; and never reads at all."""
FORMS = ("chunked", "until-close", "http-1.0", "sse", "huge", "bodiless")
ENDINGS = ("cut", "closes", "closes-unsaid", "stray", "too-long")
BEHAVIOURS = (*TIMING, *FORMS, *ENDINGS, "pieces")


@dataclass(frozen=True)
class _Message:
    """An answer's bytes, and whether the connection may be kept."""

    status: int
    head: bytes
    payload: bytes
    body: bytes
    framed: bool
    keeps: bool


def answered(dice: Random, token: bytes, request: Request, behaviours: list[str]) -> Answer:
    """The answer to one request."""
    message = _message(dice, token, request, behaviours)
    before, delivers = _before(dice, request, behaviours)
    steps = [*before]
    if "cut" in behaviours:
        steps += _broken(dice, message)
        return Answer(message.status, message.body, tuple(steps), delivers=False)
    steps += _spoken(dice, message, request, behaviours)
    ending, harmless = _ending(dice, token, message, behaviours)
    if ending and isinstance(ending[0], Send) and isinstance(steps[-1], Send):
        steps[-1] = Send(steps[-1].data + ending.pop(0).data)  # one write: the proxy gets both at once
    if "overlapped" in behaviours:
        steps.append(ReadBody())
    at = next((index for index, step in enumerate(ending) if isinstance(step, Unasked | Close)), 0)
    steps += [*ending[:at], Answered(), *ending[at:]]
    return Answer(message.status, message.body, tuple(steps), delivers and harmless)


# ── what is said ────────────────────────────────────────────────────────────────────────────────────────────


def _message(dice: Random, token: bytes, request: Request, behaviours: list[str]) -> _Message:
    media_type, body = _content(dice, token, behaviours)
    status = dice.choice((200, 200, 200, 201, 404, 500))
    fields = [(ANSWER_HEADER, token), (b"content-type", media_type)]
    if "unread" in behaviours:
        status = dice.choice((401, 307, 404))
        fields += [(b"location", b"/elsewhere/%b" % token)] if status == 307 else []
    if "bodiless" in behaviours:
        status = dice.choice((204, 304))
    keeps = "closes" not in behaviours
    version = b"1.1"
    framed = True
    payload = body
    if "bodiless" in behaviours or request.method == b"HEAD":
        if "bodiless" not in behaviours:
            fields.append((b"content-length", b"%d" % len(body)))
        payload = body = b""
    elif "until-close" in behaviours:
        framed = keeps = False
    elif "http-1.0" in behaviours:
        version = b"1.0"
        keeps = keeps and dice.random() < 0.5
        fields.append((b"content-length", b"%d" % len(body)))
        fields += [(b"connection", b"keep-alive")] if keeps else []
    elif "chunked" in behaviours or ("sse" in behaviours and dice.random() < 0.5):
        fields.append((b"transfer-encoding", b"chunked"))
        payload = _chunked(dice, body)
    else:
        fields.append((b"content-length", b"%d" % len(body)))
    if not keeps and framed and version == b"1.1":
        fields.append((b"connection", b"close"))
    lines = [b"HTTP/%b %d Fuzzed" % (version, status), *(b"%b: %b" % item for item in fields)]
    return _Message(status, b"\r\n".join([*lines, b"", b""]), payload, body, framed, keeps)


def _content(dice: Random, token: bytes, behaviours: list[str]) -> tuple[bytes, bytes]:
    size = dice.choice((0, 1, 50, 3_000, 60_000))
    if "huge" in behaviours:
        about_full = dice.randrange(*_BUFFERS)
        size = dice.choice((dice.randrange(200_000, 1_500_000), *4 * (about_full,), dice.randrange(_HUGE, 2 * _HUGE)))
    if "sse" in behaviours:
        text = filler(token, b"a", size)
        lines = [b"data: %b\n\n" % text[start : start + 900] for start in range(0, size, 900)]
        return b"text/event-stream", b"".join(lines)
    return dice.choice((b"application/octet-stream", b"application/json", b"text/plain")), filler(token, b"a", size)


def _chunked(dice: Random, body: bytes) -> bytes:
    size = dice.choice((7, 1_000, 50_000)) if len(body) < _SMALL else dice.choice((20_000, 200_000))
    pieces = [body[start : start + size] for start in range(0, len(body), size)]
    chunks = [b"%x\r\n%b\r\n" % (len(piece), piece) for piece in pieces]
    return b"".join([*chunks, b"0\r\n\r\n"])


# ── when it is said ─────────────────────────────────────────────────────────────────────────────────────────


def _before(dice: Random, request: Request, behaviours: list[str]) -> tuple[list[Step], bool]:
    """What comes before the answer; and whether the request is read by then, or soon enough."""
    if "early" in behaviours or "unread" in behaviours:
        return [Pause(dice.choice((0.0, 0.0, 0.02)))], not request.body
    if "overlapped" in behaviours:
        return [ReadBody(dice.randrange(len(request.body) + 1) // 4), Pause(dice.choice((0.0, 0.2)))], True
    late = [Pause(dice.choice((0.05, 0.3, 1.2)))] if "late" in behaviours else []
    return [ReadBody(), *late], True


def _spoken(dice: Random, message: _Message, request: Request, behaviours: list[str]) -> list[Step]:
    whole = message.head + message.payload
    if "overlapped" in behaviours and len(message.payload) > 1:
        # The beginning of the answer, then nothing while the request exerts back-pressure, then both go on.
        first = len(message.head) + dice.randrange(len(message.payload))
        return [Send(whole[:first]), Pause(dice.choice((0.1, 0.4))), ReadBody(), Send(whole[first:])]
    if "pieces" not in behaviours or len(whole) > 8 * _HUGE:
        return [Send(whole)]
    if len(whole) < 400 and dice.random() < 0.4:
        return [Send(bytes([byte])) for byte in whole]
    count = dice.randrange(2, 8)
    inner = sorted(dice.sample(range(1, len(whole)), min(count, len(whole) - 1)))
    pause = Pause(dice.choice((0.0, 0.005, 0.03)))
    pieces = [whole[start:end] for start, end in zip([0, *inner], [*inner, len(whole)], strict=True)]
    return [step for piece in pieces for step in (pause, Send(piece))]


def _broken(dice: Random, message: _Message) -> list[Step]:
    """A beginning of the answer, then the end of the connection."""
    whole = message.head + (message.payload if message.framed else b"")
    at = dice.choice((0, 0, dice.randrange(len(message.head)), dice.randrange(len(whole))))
    if not message.framed and at >= len(message.head):
        at = len(message.head) - 1
    return [*([Send(whole[:at])] if at else []), Pause(dice.choice((0.0, 0.02))), dice.choice((Close(), Reset()))]


def _ending(dice: Random, token: bytes, message: _Message, behaviours: list[str]) -> tuple[list[Step], bool]:
    """What comes behind the answer; and whether it leaves the answer whole."""
    if not message.framed:
        return [Close()], True
    own = stray_of(token)
    stray = b"HTTP/1.1 200 OK\r\n%b: %b\r\ncontent-length: 5\r\n\r\nstray" % (ANSWER_HEADER, own)
    if dice.random() < 0.3:
        stray = b"stray bytes of %b" % own
    is_small = len(message.head + message.payload) < _SMALL  # else a request may be on its way before it comes
    if is_small and ("stray" in behaviours or "too-long" in behaviours):
        if "bodiless" in behaviours or "too-long" in behaviours:
            stray = b"body of %b" % own
        return [Send(stray), Unasked()], False
    if not message.keeps:
        return [Unasked(), Pause(0.1), Close()], True
    if "closes-unsaid" in behaviours:
        return [Pause(dice.choice((0.0, 0.0, 0.01, 0.1))), Close()], True
    return [], True
