"""Turns in their JSON form, put into a real store."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from contextlib import closing
from pathlib import Path
from typing import Any

from a2a_eval_proxy.runs.stored_turns import open_existing_store
from a2a_eval_proxy.store import TurnQuery, every_turn, open_store
from a2a_eval_proxy.turn import Turn
from support.patience import PATIENCE_S

_BATCH = 500


async def stored_turns(location: str, **query: Any) -> list[dict[str, Any]]:
    """The turns of a store, in their JSON form, that a `TurnQuery` with these fields selects."""
    async with open_existing_store(location) as store:
        return [turn async for turn in every_turn(store, TurnQuery(**query))]


def store_turns(path: Path, turns: Iterable[dict[str, Any]], run: str | None = None) -> None:
    """Add `turns` with their evaluations to the store at `path`, made if need be; `run` replaces the run they name.

    They are done, whatever their status says.
    """
    named = [turn if run is None else turn | {"run": run, "turn_id": f"{run}-{turn['turn_id']}"} for turn in turns]
    with closing(open_store(str(path))) as store:
        for begin in range(0, len(named), _BATCH):
            batch = named[begin : begin + _BATCH]
            committed = threading.Event()
            evaluations = {turn["turn_id"]: turn["evaluations"] for turn in batch if turn["status"] != "open"}
            assert store.add([Turn.from_dict(turn) for turn in batch], committed.set, evaluations)
            assert committed.wait(PATIENCE_S)
