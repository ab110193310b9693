"""Whether there is a browser to measure pages in."""

from __future__ import annotations

import pytest
from support.chromium import require_chromium

from .targets import TargetUnavailableError


def require_browser() -> None:
    """Raises TargetUnavailableError without Chromium, its driver and selenium."""
    try:
        require_chromium()
    except (pytest.skip.Exception, pytest.fail.Exception) as error:
        raise TargetUnavailableError(str(error)) from None
