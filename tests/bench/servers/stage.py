"""`a2a-eval-proxy serve` with a part switched off that no option switches off.

Run as `python stage.py PART OPTION...`, the options being those of `serve`, and PART one of
forwarding: nothing is read, so there are no turns; capture: turns are dropped as they close; all: nothing is off.
"""

from __future__ import annotations

import sys
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


if __name__ == "__main__":
    part = sys.argv[1]
    {"forwarding": forward_only, "capture": drop_turns, "all": lambda: None}[part]()
    sys.argv[1] = "serve"
    main()
