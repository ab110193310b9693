"""`record`: a suite from the stored turns of an agent that is known to be good."""

from __future__ import annotations

from tool_call_evaluators.recording import record_suite
from tool_call_evaluators.suite import parse_suite

from .store import StoreError
from .stored import compact, reading, turns_of


class NothingToRecordError(StoreError):
    """No stored conversation went well; the message says where was looked."""


async def record_run(location: str, run: str | None) -> tuple[str, int]:
    """The text of a suite file and how many cases it has, from one run or (None) from all.

    Raises StoreError where there is no store or no such run, NothingToRecordError where no conversation went well.
    """
    async with reading(location) as store:
        turns = [compact(turn) async for turn in turns_of(store, run)]
    text = record_suite(turns, run or "recorded")
    cases = len(parse_suite(text).cases)
    if not cases:
        where = f"store {location}" + (f", run {run!r}" if run else "")
        raise NothingToRecordError(f"{where}: none of {len(turns)} turns is of a conversation that went well")
    return text, cases
