"""Modules that take long to import: every process of the suite imports every file of tests, and few use them."""

from __future__ import annotations

import importlib
from typing import Any


class Later:
    """A module that is imported when a test first uses one of its names."""

    def __init__(self, module: str) -> None:
        self._module = module

    def __getattr__(self, name: str) -> Any:
        """Raises AttributeError for names with an underscore, which pytest asks for when it collects."""
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(importlib.import_module(self._module), name)
