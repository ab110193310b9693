"""`prune`: old turns deleted from a store, and a sentence about them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from tool_call_evaluators.report.wording import counted

from ..store.base import Prunable
from .stored_turns import open_existing_store


async def pruned(location: str, days: float | None, megabytes: int | None, *, dry_run: bool = False) -> str:
    """Delete turns that ended more than `days` ago, then the oldest until the store takes at most `megabytes`.

    Returns what was deleted, or would be. Raises StoreError.
    """
    before = None if days is None else datetime.now(UTC) - timedelta(days=days)
    max_bytes = None if megabytes is None else megabytes * 1_000_000
    async with open_existing_store(location) as store:
        found = await store.prunable(before, max_bytes)
        if dry_run:
            about = "" if max_bytes is None else "about "
            return f"would delete {about}{counted(found.turns, 'turn')} of {found.stored}{_began(found)}"
        deleted = await store.pruned(before, max_bytes)
        left = (await store.prunable(None, None)).stored
    return f"deleted {counted(deleted, 'turn')}{_began(found) if deleted else ''}; {left} are left"


def _began(found: Prunable) -> str:
    """When the first and the last of the turns began."""
    if found.first_at is None or found.last_at is None:
        return ""
    first, last = (f"{datetime.fromtimestamp(at, UTC):%Y-%m-%d %H:%M}" for at in (found.first_at, found.last_at))
    return f", which began on {first} UTC" if first == last else f", which began from {first} to {last} UTC"
