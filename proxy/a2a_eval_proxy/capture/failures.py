"""An error of capture costs turns their certainty, and traffic nothing: whoever calls capture catches it, and reports
it here."""

from __future__ import annotations

import logging

from a2a_tool_capture import Finding, Severity

from ..errors import log_once

logger = logging.getLogger(__name__)

CAPTURE_FAILED = Finding(
    "capture_error", "capture failed while this turn was open; see the proxy's log", Severity.ERROR, "capture"
)


def log_failure(error: Exception) -> None:
    """See `log_once`."""
    what = "what clients and agents send each other passes all the same, but a turn may lack calls, or be missing"
    log_once(logger, f"capture failed; {what}", error)
