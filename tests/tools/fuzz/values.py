"""What a fuzzed exchange is: its token, what either side says, and the steps that say it. Pure.

A token names one exchange. It stands in the target, in a header and in every 64 bytes of both bodies, so that any piece
that turns up in the wrong place shows whose it is.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cache, lru_cache

TOKEN = re.compile(rb"~[0-9a-f]{12}~")
TOKEN_HEADER = b"x-fuzz-token"
ANSWER_HEADER = b"x-fuzz-answer"
_BLOCK = 64
_MAX_FILLER = 10_000_000
_SHOWN_STEPS = 12

Headers = tuple[tuple[bytes, bytes], ...]


def token_of(round_index: int, index: int) -> bytes:
    """The token of an exchange: `~`, 6 digits for the round, 6 for the exchange, `~`; all characters suit a URL."""
    return b"~%06x%06x~" % (round_index & 0xFFFFFF, index)


def hidden_in(token: bytes) -> bytes:
    """The token of a request that hides in the body of another: it must never become one."""
    return token[:7] + b"ff" + token[9:]


def stray_of(token: bytes) -> bytes:
    """The token of what an agent sends behind its answer: no client may see it."""
    return token[:7] + b"fe" + token[9:]


def tokens_in(data: bytes) -> set[bytes]:
    return set(TOKEN.findall(data))


@lru_cache(maxsize=32)
def filler(token: bytes, role: bytes, size: int) -> bytes:
    """`size` bytes that name their exchange, role (b"q" request, b"a" answer) and offset; no two places are alike."""
    name = token + role
    dots = b"." * (_BLOCK - len(name) - 8)
    blocks = -(-size // _BLOCK)
    return (name + (dots + name).join(_offsets()[:blocks]) + dots)[:size]


@cache
def _offsets() -> list[bytes]:
    return [b"%08x" % offset for offset in range(0, _MAX_FILLER, _BLOCK)]


# ── steps ───────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class Send:
    data: bytes

    def __repr__(self) -> str:
        shown = self.data[:160]
        more = f" + {len(self.data) - len(shown)} bytes" if len(self.data) > len(shown) else ""
        return f"Send({shown!r}{more})"


@dataclass(frozen=True)
class Pause:
    seconds: float


@dataclass(frozen=True)
class ReadBody:
    """An agent reads the request's body up to this size; None: to its end."""

    size: int | None = None


@dataclass(frozen=True)
class Answered:
    """An agent has sent the last byte of its answer."""


@dataclass(frozen=True)
class Unasked:
    """What the agent did last was not asked for: no later request may use the connection."""


@dataclass(frozen=True)
class Close:
    pass


@dataclass(frozen=True)
class Reset:
    pass


Step = Send | Pause | ReadBody | Answered | Unasked | Close | Reset


# ── exchanges ───────────────────────────────────────────────────────────────────────────────────────────────


class Fate(StrEnum):
    """What the proxy may do with a request."""

    FORWARDED = "forwarded"
    """It is good: it reaches the agent, or the client learns why not."""
    EITHER = "either"
    """It is odd: forwarded as it is, or refused."""
    REFUSED = "refused"
    """It is broken: the agent never gets it whole."""


@dataclass(frozen=True)
class Request:
    method: bytes
    target: bytes
    headers: Headers
    """Lower-case."""
    body: bytes = b""
    chunked: bool = False
    hops: Headers = ()
    """Fields that concern the proxy only."""
    framing: Headers | None = None
    """Instead of the framing that suits the body."""
    payload: bytes | None = None
    """Instead of the body as the framing has it."""
    version: bytes = b"1.1"
    fate: Fate = Fate.FORWARDED
    smuggled: frozenset[bytes] = frozenset()
    """Tokens of requests hidden in the body: they must never be requests of their own."""
    dropped: frozenset[bytes] = frozenset()
    """End-to-end fields that `Connection` makes hop-by-hop ones."""
    steps: tuple[Step, ...] = ()
    """How it is sent. A Close or Reset among them is a client that leaves."""

    @property
    def kept_headers(self) -> Headers:
        """End-to-end fields that the agent must find."""
        return tuple(item for item in self.headers if item[0] not in self.dropped)

    @property
    def hop_names(self) -> frozenset[bytes]:
        """Fields the agent must not find."""
        return frozenset(name for name, _ in self.hops) - {b"connection"} | self.dropped

    @property
    def closes(self) -> bool:
        """It is the last on its connection, by its own word or by a possible outcome."""
        return self.version == b"1.0" or any(b"close" in value for _, value in self.hops)

    @property
    def leaves(self) -> bool:
        return any(isinstance(step, Close | Reset) for step in self.steps)


@dataclass(frozen=True)
class Answer:
    status: int
    body: bytes
    """What the client may see, after framing; a client that sees less sees a cut."""
    steps: tuple[Step, ...]
    delivers: bool = True
    """Whether a client that stays gets the whole body, the request having been read."""


@dataclass(frozen=True)
class Reading:
    """How a client reads its answer."""

    buffer: int | None = None
    """Size of the socket's receive buffer; None: the system's."""
    wait_s: float = 0.0
    piece: int = 65_536
    pause_s: float = 0.0
    slow_pieces: int = 0
    """The number of pieces that are read with a pause; then as fast as they come."""
    leave_after: int | None = None
    """The client leaves after that number of bytes of its answers."""
    reset: bool = False


@dataclass(frozen=True)
class Exchange:
    token: bytes
    request: Request
    answer: Answer
    features: tuple[str, ...] = ()
    """Names of what is unusual about it."""

    @property
    def name(self) -> str:
        return self.token.decode()

    def script(self) -> str:
        """What both sides do, for a reader."""
        start = f"{self.name} {self.request.method.decode()} {self.request.target.decode()}"
        sides = ("client", self.request.steps), ("agent", self.answer.steps)
        shown = [f"  {side}: {step}" for side, steps in sides for step in steps[:_SHOWN_STEPS]]
        return "\n".join([f"{start}: {', '.join(self.features)}", *shown])


@dataclass(frozen=True)
class ConnectionPlan:
    """One connection of a client: batches of exchanges, each sent without waiting for an answer."""

    batches: tuple[tuple[Exchange, ...], ...]
    reading: Reading = field(default_factory=Reading)

    def stays(self, batch: tuple[Exchange, ...]) -> bool:
        """Whether the client must get all answers of that batch, up to one that ends the connection: it waits.

        It may send more behind that one: the proxy closes in stages (RFC 9112, section 9.6).
        """
        return self.reading.leave_after is None and not any(exchange.request.leaves for exchange in batch)

    @property
    def exchanges(self) -> list[Exchange]:
        return [exchange for batch in self.batches for exchange in batch]
