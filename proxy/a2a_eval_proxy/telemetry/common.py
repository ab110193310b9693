"""What all of our telemetry shares: its scope, and the report of its own failures."""

from __future__ import annotations

import logging

logger = logging.getLogger(__name__)

SCOPE = "a2a_eval_proxy"
"""Instrumentation scope of all we export. Such telemetry is ours, and contains nothing of what an agent did."""

_reported: set[str] = set()


def report(error: Exception) -> None:
    """Log what failed in telemetry, once: with the same traffic it fails again and again."""
    if repr(error) not in _reported and len(_reported) < 100:
        _reported.add(repr(error))
        logger.error("telemetry failed; traffic and evaluation are not affected", exc_info=error)
