"""`a2a-eval-proxy serve` with a part switched off that no option switches off.

Run as `python stage.py PART OPTION...`, the options being those of `serve`, and PART one of
forwarding: nothing is read, so there are no turns; capture: turns are dropped as they close; all: nothing is off.

With BENCH_CALLS=FILE in the environment, it counts calls of Python functions. It starts from zero when FILE.reset
appears, writes the counts to FILE as JSON when FILE.write appears, and deletes either when that is done.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from collections import Counter
from pathlib import Path
from typing import Any

from a2a_eval_proxy.cli import main


class Blind:
    """In place of capture's `CapturedExchange`: is told of the exchange, and tells nobody."""

    is_closed = False

    def __init__(self, *arguments: Any, **options: Any) -> None: ...

    def _ignore(self, *arguments: Any, **options: Any) -> None: ...

    request = event = answer = refused = report = end = notified = failed = _ignore


def forward_only() -> None:
    from a2a_eval_proxy.relay import forwarder, relayed_exchange
    from a2a_eval_proxy.relay.answer_readers import AnswerReader, Rules

    unread = Rules(strips=False, asked=False, webhooks=None)
    relayed_exchange.CapturedExchange = Blind
    forwarder.reader_of = lambda exchange, head, rules, shell, **_: AnswerReader(exchange, head, unread, shell)


def drop_turns() -> None:
    from a2a_eval_proxy.scoring.pipeline import Pipeline

    def take(pipeline: Any, turn: object, *, again: bool = False) -> None:
        pipeline.metrics.turns_closed += not again

    Pipeline.take = take


def count_calls(file: Path) -> None:
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
        file.write_text(json.dumps([[names[thread], *code, count] for (thread, *code), count in calls.copy().items()]))

    def obey() -> None:
        while True:
            time.sleep(0.02)
            for suffix, action in ((".reset", calls.clear), (".write", write)):
                request = file.with_suffix(suffix)
                if request.exists():
                    action()
                    request.unlink()

    threading.Thread(target=obey, daemon=True).start()  # not counted: it starts before the next line
    threading.setprofile(count)
    sys.setprofile(count)


if __name__ == "__main__":
    part = sys.argv[1]
    {"forwarding": forward_only, "capture": drop_turns, "all": lambda: None}[part]()
    sys.argv[1] = "serve"
    if calls_file := os.environ.get("BENCH_CALLS"):
        count_calls(Path(calls_file))
    main()
