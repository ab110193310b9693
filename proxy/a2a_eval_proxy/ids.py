"""Identifiers: time-ordered for turns, random for traces."""

from __future__ import annotations

import os
import random
import time

# Seeded by the operating system once. `os.urandom` for every request would release the interpreter lock each time.
_random = random.Random()  # noqa: S311  # unique is enough: the ids need not be secret
_bits = _random.getrandbits
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_random.seed)  # otherwise parent and child create the same ids


def new_turn_id() -> str:
    """32 hex digits, milliseconds since the epoch first, so that ids sort by time (as UUID version 7 does)."""
    return f"{time.time_ns() // 1_000_000:012x}{_bits(80):020x}"


def new_trace_context() -> tuple[str, str]:
    """Ids of a trace and of its first span, as W3C Trace Context has them: 32 and 16 hex digits, not all zero."""
    return f"{_bits(128) or 1:032x}", f"{_bits(64) or 1:016x}"
