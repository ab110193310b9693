"""`a2a-eval-proxy serve` with a part switched off that no option switches off.

Run as `python stage.py PART OPTION...`, the options being those of `serve`, and PART one of
forwarding: nothing is read, so there are no turns; capture: turns are dropped as they close; all: nothing is off.

With BENCH_CALLS=FILE in the environment, writes how often each Python function was called, as JSON, when it ends.
"""

from __future__ import annotations

import atexit
import json
import os
import sys
import threading
from collections import Counter
from pathlib import Path
from typing import Any

from a2a_eval_proxy.cli import main


class Blind:
    """In place of a `Tap`: is given the exchange, and reads nothing of it."""

    request = unreadable = None

    def __init__(self, *arguments: Any, **options: Any) -> None: ...

    def _ignore(self, *arguments: Any, **options: Any) -> None: ...

    read_request = request_body = end = _ignore


def forward_only() -> None:
    from a2a_eval_proxy.relay import forwarder, responses

    forwarder.Tap = Blind
    responses.ResponseRelay.relay = lambda self: self._relay_body()


def drop_turns() -> None:
    from a2a_eval_proxy.scoring.pipeline import Pipeline

    def take(pipeline: Any, turn: object) -> None:
        pipeline._metrics.turns_closed += 1

    Pipeline.take = take


def count_calls(path: Path) -> None:
    """Count in all threads: the call of a coroutine, and each time that it continues."""
    calls: Counter[tuple[int, str, int, str]] = Counter()
    names: dict[int, str] = {}

    def count(frame: Any, event: str, _: object) -> None:
        if event == "call":
            thread, code = threading.get_ident(), frame.f_code
            if thread not in names:
                names[thread] = threading.current_thread().name
            calls[thread, code.co_filename, code.co_firstlineno, code.co_qualname] += 1

    def write() -> None:
        sys.setprofile(None)
        path.write_text(json.dumps([[names[thread], *code, count] for (thread, *code), count in calls.items()]))

    atexit.register(write)
    threading.setprofile(count)
    sys.setprofile(count)


if __name__ == "__main__":
    part = sys.argv[1]
    {"forwarding": forward_only, "capture": drop_turns, "all": lambda: None}[part]()
    sys.argv[1] = "serve"
    if calls_file := os.environ.get("BENCH_CALLS"):
        count_calls(Path(calls_file))
    main()
