"""The proxy's member of `tracestate`: it names the turn for which a request was sent. Pure.

Agents continue the trace context that they get in the requests that they send. So a request that an agent sends while
it works on a turn names that turn, however many branches of its trace run at the same time. W3C Trace Context, section
3.3: a vendor may add its member, or change it, which then comes first; the others stay as they are, in their order.
"""

from __future__ import annotations

import re

KEY = "a2a-eval-proxy"

_MOST_MEMBERS = 32
"""W3C Trace Context, section 3.3.1.1."""

_TURN_ID = re.compile(r"[0-9a-f]{32}")


def turn_named(trace_state: str) -> str:
    """The id of the turn in the value of a `tracestate` field; "" for none."""
    for member in trace_state.split(",") if KEY in trace_state else ():
        key, _, value = member.strip(" \t").partition("=")
        if key == KEY:
            return value if _TURN_ID.fullmatch(value) else ""
    return ""


def naming_turn(turn_id: str, trace_state: str) -> str:
    """The value of a `tracestate` field with this turn in place of any other."""
    if not trace_state:
        return f"{KEY}={turn_id}"
    others = [member for member in trace_state.split(",") if member.strip(" \t").partition("=")[0] != KEY]
    return ",".join([f"{KEY}={turn_id}", *others[: _MOST_MEMBERS - 1]])
