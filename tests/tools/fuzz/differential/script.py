"""An exchange as a script of client and agent, and what each of them sees of the other.

The script is played twice, directly and through the proxy. Whoever sends a step that must be seen continues when the
other side has it: a part that the proxy withholds leaves the exchange without an end, however slow the machine is.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum

Fields = tuple[tuple[bytes, bytes], ...]

AUTHORITY = b"(authority)"
"""In a field: HOST:PORT of the agent for the agent, and of whom it asked for the client."""

TOKEN = b"x-fuzz-token"
"""The field that names the exchange."""


class Side(StrEnum):
    CLIENT = "client"
    AGENT = "agent"


@dataclass(frozen=True, kw_only=True)
class Step:
    by: Side
    seen: bool = True
    """Whether the other side must have it before the sender continues."""


@dataclass(frozen=True, kw_only=True)
class Head(Step):
    """Begins a message. `start` is `METHOD TARGET`, or the status."""

    start: bytes
    fields: Fields = ()
    asked: Fields | None = None
    """The fields of an agent that was asked for tool calls; None: the same."""
    framing: bytes = b""
    """Over HTTP/1.1: `content-length`, `transfer-encoding`, `close` or none."""


@dataclass(frozen=True, kw_only=True)
class Interim(Step):
    """A response of 1xx."""

    status: bytes
    fields: Fields = ()


@dataclass(frozen=True, kw_only=True)
class Data(Step):
    data: bytes
    asked: bytes | None = None
    """What an agent sends that was asked for tool calls; None: the same."""

    def variant(self, asked: bool) -> bytes:
        return self.asked if asked and self.asked is not None else self.data


@dataclass(frozen=True, kw_only=True)
class End(Step):
    trailers: Fields = ()


@dataclass(frozen=True, kw_only=True)
class Break(Step):
    """The end of an exchange that is not over. Over HTTP/2 the code of the reset; -1: the connection closes."""

    code: int = -1


AnyStep = Head | Interim | Data | End | Break


@dataclass(frozen=True)
class Exchange:
    token: bytes
    kind: str
    """For reports."""
    steps: tuple[AnyStep, ...]
    asks: bool = False
    """Whether the proxy asks for tool calls, where it negotiates."""
    filtered: bool = False
    """Whether the response is read in parts, which may hold tool calls."""

    @property
    def head(self) -> Head:
        return next(step for step in self.steps if isinstance(step, Head))

    @property
    def breaks(self) -> bool:
        """Whether it ends early."""
        return isinstance(self.steps[-1], Break)

    @property
    def leaves(self) -> bool:
        """Whether it ends early because its client leaves."""
        return self.breaks and self.steps[-1].by is Side.CLIENT

    def body(self, side: Side, *, asked: bool = False) -> bytes:
        """All that a side sends."""
        return b"".join(step.variant(asked) for step in self.steps if isinstance(step, Data) and step.by is side)

    def script(self) -> str:
        """For a reader."""
        return "\n".join([f"{self.token.decode()} {self.kind}:", *(f"  {shortened(step)}" for step in self.steps)])


def shortened(value: object, most: int = 400) -> str:
    text = repr(value)
    return text if len(text) <= most else f"{text[: most // 2]} ... {text[-most // 2 :]}"


@dataclass
class Seen:
    """What one side has got so far."""

    start: bytes = b""
    fields: list[tuple[bytes, bytes]] = field(default_factory=list)
    interim: list[bytes] = field(default_factory=list)
    body: bytearray = field(default_factory=bytearray)
    trailers: list[tuple[bytes, bytes]] = field(default_factory=list)
    end: str = ""
    """`whole`, `cut` by the end of the connection, `reset CODE`, or `left` by the client itself."""


class Meeting:
    """Both sides of one exchange on one way, direct or proxied."""

    def __init__(self, exchange: Exchange) -> None:
        self.exchange = exchange
        self.seen = {Side.CLIENT: Seen(), Side.AGENT: Seen()}
        self.arrivals = 0
        """How often the request has reached the agent."""
        self.agent: asyncio.Task[None] | None = None
        """What the agent does about it."""
        self.is_answered = False
        """Whether the agent has said all that it says, but perhaps for the end."""
        self.moves = 0
        """How often a side has seen something."""
        self._change = asyncio.Event()

    def changed(self) -> None:
        """A side has seen something."""
        self.moves += 1
        self._change.set()
        self._change = asyncio.Event()

    async def until(self, holds: Callable[[], bool]) -> None:
        while not holds():
            await self._change.wait()

    def has(self, step: AnyStep, size: int) -> bool:
        """Whether the other side has what a step sends; `size`: of the body up to there."""
        seen = self.seen[Side.CLIENT if step.by is Side.AGENT else Side.AGENT]
        match step:
            case Head():
                return seen.start != b"" or seen.end != ""
            case Data():
                return len(seen.body) >= size or seen.end != ""
            case Interim():
                return True
            case Break():
                return seen.end not in ("", "whole")
            case _:
                return seen.end != ""

    @property
    def is_open(self) -> bool:
        """Whether a side is still at it."""
        return not self.is_over or (self.agent is not None and not self.agent.done())

    @property
    def is_over(self) -> bool:
        """Whether the client waits for nothing more."""
        return self.seen[Side.CLIENT].end != ""
