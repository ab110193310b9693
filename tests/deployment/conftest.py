"""One storage of containers, with the image, for all tests that need it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from deployment.containers import NoContainersError, Podman, working_podman
from e2e.provision import UnavailableError


@pytest.fixture(scope="session")
def podman() -> Iterator[Podman]:
    """Podman with the image built. Skips where containers cannot run, or its packages cannot be had."""
    with TemporaryDirectory(prefix="containers-", ignore_cleanup_errors=True) as folder:
        try:
            engine = working_podman(Path(folder))
            engine.build()
        except NoContainersError as reason:
            pytest.skip(str(reason))
        except UnavailableError as reason:
            if os.environ.get("CI"):
                pytest.fail(str(reason))
            pytest.skip(str(reason))
        yield engine
        engine("rm", "--force", "--time", "0", "--all")
