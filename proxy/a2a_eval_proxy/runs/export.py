"""`export`: stored turns as JSON lines."""

from __future__ import annotations

import json
from typing import TextIO

from .stored_turns import open_existing_store, turns_of


async def write_turns(location: str, run: str | None, out: TextIO) -> None:
    """One turn a line, oldest first, in the JSON form of /api/turns; a page of them in memory at a time.

    Raises StoreError where there is no store, or no such run in it.
    """
    async with open_existing_store(location) as store:
        async for turn in turns_of(store, run):
            out.write(json.dumps(turn, ensure_ascii=False) + "\n")
