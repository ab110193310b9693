"""The distributions, built once for the tests of this folder in one process."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from deployment.building import hatchling
from deployment.containers import REPOSITORY


@pytest.fixture(scope="session")
def dist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with wheel and sdist of both distributions, as they are published."""
    folder = tmp_path_factory.mktemp("dist")
    for source in (REPOSITORY, REPOSITORY / "extension"):
        command = [hatchling(), "-m", "hatchling", "build", "--directory", folder]
        subprocess.run(command, cwd=source, check=True, capture_output=True, text=True)
    return folder
