"""Looks whether a target does its job, so that no figures are taken of something that does not."""

from __future__ import annotations

from .load import LoadGenerator
from .targets import Running

REQUESTS = 3


class BehaviourError(RuntimeError):
    """A target does not do what it is measured for."""


def check(target: Running, load: LoadGenerator) -> None:
    """Send a few requests of each kind, with and without asking for tool calls. Raises BehaviourError."""
    for ask in (False, True):
        unary = load.unary(target.port, connections=1, seconds=5, requests=REQUESTS, ask=ask)
        streams = load.streams(target.port, streams=REQUESTS, events=3, interval_ms=5, ask=ask)
        _expect(target, f"answers to SendMessage (asking for tool calls: {ask})", unary["requests"], REQUESTS)
        _expect(target, f"complete streams (asking for tool calls: {ask})", streams["complete"], REQUESTS)
        carrying = unary["with_tool_calls"] + streams["with_tool_calls"]
        _expect(target, f"answers with tool calls (asked for: {ask})", carrying, 2 * REQUESTS * ask)
    if target.admin_url is not None:
        _check_capture(target, target.admin_url)


def _check_capture(target: Running, admin_url: str) -> None:
    """Every turn so far is stored, with the two tool calls the agent reports."""
    if not target.settle():
        raise BehaviourError(f"{target.name}: {admin_url}/api/flush does not finish")
    turns = target.stored_turns()
    _expect(target, "captured turns", len(turns), 4 * REQUESTS)
    _expect(target, "captured tool calls", sum(len(turn["tool_calls"]) for turn in turns), 8 * REQUESTS)


def _expect(target: Running, what: str, found: int, expected: int) -> None:
    if found != expected:
        raise BehaviourError(f"{target.name}: {found} {what}, expected {expected}")
