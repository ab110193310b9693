"""What is deleted of the turns of each agent, and how much they take, without reading all of them. Sans-io."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import NamedTuple

_BLOCK_BITS = 11
SIZES = (
    f"SELECT seq >> {_BLOCK_BITS} AS block, sum(size) FROM turns WHERE {{of_agent}} AND seq >= :since GROUP BY block"  # noqa: S608  # fixed texts
)
"""Blocks of numbers and the bytes in them, of one `:agent`; from an index alone."""
CUT = (
    "SELECT max(seq) FROM (SELECT seq, sum(size) OVER (ORDER BY seq DESC) AS taken FROM turns WHERE {of_agent}"
    " AND seq BETWEEN :first AND :last) AS newest WHERE taken > :room"
)
"""The newest turn that is beyond `:room` in a block."""


class Limits(NamedTuple):
    """What of an agent's turns is kept: those that ended at `before` or later (seconds since the epoch), of these the
    newest that take `max_bytes`. None: no such limit."""

    before: float | None = None
    max_bytes: int | None = None

    @classmethod
    def of(cls, days: float | None, megabytes: int | None, now: float | None) -> Limits:
        """Those of `retain_days` and `retain_mb`. `now` None: nothing is deleted for its age."""
        before = None if days is None or now is None else now - days * 86_400
        return cls(before, None if megabytes is None else megabytes * 1_000_000)

    @property
    def moment(self) -> datetime | None:
        """`before` as a datetime."""
        return None if self.before is None else datetime.fromtimestamp(self.before, UTC)


class FullBlock(NamedTuple):
    """The numbers among which those begin that are too much: `room` bytes of the newest stay."""

    first: int
    last: int
    room: int


class AgentSizes:
    """Bytes of the turns of agents, in blocks of turn numbers: of those known, only the newest is read again."""

    def __init__(self) -> None:
        self._blocks: dict[str, dict[int, int]] = {}

    def since(self, agent: str) -> int:
        """The number of the first turn to read."""
        return max(self._blocks.get(agent, ()), default=0) << _BLOCK_BITS

    def full(self, agent: str, rows: Iterable[tuple[int, int]], limit: int) -> FullBlock | None:
        """Where the limit is reached, counted from the newest turn, now that `rows` of `SIZES` were read; None below
        it. Earlier blocks are forgotten: what is in them is to be deleted."""
        known = self._blocks[agent] = {**self._blocks.get(agent, {}), **{block: int(size) for block, size in rows}}
        for block in sorted(known, reverse=True):
            if known[block] > limit:
                self._blocks[agent] = {later: size for later, size in known.items() if later >= block}
                first = block << _BLOCK_BITS
                return FullBlock(first, first + (1 << _BLOCK_BITS) - 1, limit)
            limit -= known[block]
        return None
