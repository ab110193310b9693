"""Turns in their JSON form, put into a real store."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from a2a_eval_proxy.store import open_store
from a2a_eval_proxy.turn import Turn
from support.patience import PATIENCE_S

_BATCH = 500


def store_turns(path: Path, turns: Iterable[dict[str, Any]], run: str | None = None) -> None:
    """Add `turns` with their evaluations to the store at `path`, made if need be; `run` replaces the run they name.

    They are done, whatever their status says.
    """
    store = open_store(str(path))
    try:
        batch: list[dict[str, Any]] = []
        for turn in turns:
            batch.append(turn if run is None else turn | {"run": run, "turn_id": f"{run}-{turn['turn_id']}"})
            if len(batch) == _BATCH:
                _add(store, batch)
                batch = []
        _add(store, batch)
    finally:
        store.close()


def _add(store: Any, turns: list[dict[str, Any]]) -> None:
    committed = threading.Event()
    evaluations = {turn["turn_id"]: turn["evaluations"] for turn in turns if turn["status"] != "open"}
    assert store.add([Turn.from_dict(turn) for turn in turns], committed.set, evaluations)
    assert committed.wait(PATIENCE_S)
