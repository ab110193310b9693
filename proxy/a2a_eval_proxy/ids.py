"""Identifiers: time-ordered for turns and traces, readable for runs."""

from __future__ import annotations

import os
import random
import re
import time
from datetime import UTC, datetime

# Seeded by the operating system once. `os.urandom` for every request would release the interpreter lock each time.
_random = random.Random()  # noqa: S311  # unique is enough: the ids need not be secret
_bits = _random.getrandbits
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_random.seed)  # otherwise parent and child create the same ids


def new_turn_id() -> str:
    """32 hex digits, milliseconds since the epoch first, so that ids sort by time (as UUID version 7 does).

    Annotations have such ids, too, and so has a trace that begins with a turn: see `trace_of`.
    """
    return f"{time.time_ns() // 1_000_000:012x}{_bits(80):020x}"


def trace_of(turn_id: str) -> tuple[str, str]:
    """Ids of the trace that begins with this turn, and of its first span, as W3C Trace Context has them.

    The trace has the id of the turn, so that a store needs no further index entry to find it. Samplers go by the last
    14 digits, which are random.
    """
    return turn_id, turn_id[16:]


def new_run_name(prefix: str) -> str:
    """Returns a name such as `serve-20261121T082210.042Z`: `prefix` and the current time in UTC.

    It has milliseconds, so that two runs that start within one second do not share a name.
    """
    now = datetime.now(UTC)
    return f"{prefix}-{now:%Y%m%dT%H%M%S}.{now.microsecond // 1000:03}Z"


def prefix_of(run: str) -> str:
    """The prefix of a name of `new_run_name`, such as the suite of the run; empty for any other name."""
    found = re.fullmatch(r"(.+)-\d{8}T\d{6}\.\d{3}Z", run)
    return found[1] if found else ""
