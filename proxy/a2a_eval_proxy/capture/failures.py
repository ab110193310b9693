"""An error of capture costs turns their certainty, and traffic nothing: whoever calls capture catches it, and reports
it here."""

from __future__ import annotations

import logging

from a2a_tool_capture import Finding, Severity

logger = logging.getLogger(__name__)

CAPTURE_FAILED = Finding(
    "capture_error", "capture failed while this turn was open; see the proxy's log", Severity.ERROR, "capture"
)

_MAX_LOGGED = 100
_logged: set[str] = set()


def log_failure(error: Exception) -> None:
    """Log an error of capture with its traceback, once: the same traffic fails repeatedly."""
    if repr(error) not in _logged and len(_logged) < _MAX_LOGGED:
        _logged.add(repr(error))
        logger.error(
            "capture failed; what clients and agents send each other passes all the same, but a turn may lack calls, "
            "or be missing",
            exc_info=error,
        )
