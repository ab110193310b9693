"""`a2a-eval-proxy serve` with a part switched off that no option switches off.

Run as `python stage.py PART OPTION...`, the options being those of `serve`, and PART one of
forwarding: nothing is read, so there are no turns; capture: turns are dropped as they close; all: nothing is off.
"""

from __future__ import annotations

import sys
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


if __name__ == "__main__":
    part = sys.argv[1]
    {"forwarding": forward_only, "capture": drop_turns, "all": lambda: None}[part]()
    sys.argv[1] = "serve"
    main()
