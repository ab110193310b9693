"""What builds the distributions."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest
from deployment.containers import DEPLOY
from support.provision import UnavailableError, python_with


@cache
def hatchling() -> Path:
    """The interpreter of an environment that can build. Skips the test where it is missing."""
    try:
        return python_with(DEPLOY / "build-requirements.txt")
    except UnavailableError as reason:
        pytest.skip(str(reason))
