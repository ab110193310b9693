"""Fills the disk with turns, as a proxy does that has a store there: `python full_disk.py FOLDER retention|command`.

With `retention`, the store deletes old turns itself. With `command`, `a2a-eval-proxy prune` does, while the store
is open and after it was closed. Ends with 0 if every turn was written.
"""

from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path

from a2a_eval_proxy.store import SqliteStore
from support.kept import turn
from support.patience import PATIENCE_S

BATCHES, TURNS, BYTES = 150, 10, 20_000


def main(folder: str, deletes: str) -> None:
    path = str(Path(folder) / "turns.db")
    store = SqliteStore(path, patient=True)
    opened = threading.Event()
    store.start(opened.set)
    assert opened.wait(PATIENCE_S)
    if deletes == "retention":
        store.prune(None, 8_000_000)
    numbers = iter(range(1, BATCHES * TURNS + 1))
    for _ in range(BATCHES):
        written = threading.Event()
        batch = [turn(number) for number, _ in zip(numbers, range(TURNS), strict=False)]
        for one in batch:
            one.user_text = f"{one.turn_id} " * (BYTES // 10)
        assert store.add(batch, written.set)
        while not written.wait(0.05) and deletes == "command":
            if store.health.failed_writes:
                prune(path, "--dry-run")
                prune(path)
                deletes = "was full"
        assert written.wait(PATIENCE_S), store.health.problem
        if deletes == "was full":
            break
    store.close()
    prune(path)
    print("all written")


def prune(path: str, *more: str) -> None:
    command = [sys.executable, "-m", "a2a_eval_proxy", "prune", "--store", path, "--retain-mb", "8", *more]
    subprocess.run(command, check=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
