"""Environments with what the pages of frameworks install, one for each page and module of tests."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest
from e2e.frameworks import pages
from support.provision import resolved_python

GetPython = Callable[[str], Path]


@pytest.fixture(scope="module")
def python_of(tmp_path_factory: pytest.TempPathFactory) -> GetPython:
    @cache
    def get(name: str) -> Path:
        folder = tmp_path_factory.mktemp(name) / "environment"
        return resolved_python(folder, pages.install_arguments(pages.read(name)))

    return get
