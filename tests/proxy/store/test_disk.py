"""A disk that is full or read-only: real ones, in a mount namespace of their own."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from support.patience import PATIENCE_S


def _can_mount() -> bool:
    if shutil.which("unshare") is None:
        return False
    command = ["unshare", "-m", "mount", "-t", "tmpfs", "tmpfs", "/mnt"]
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


needs_mounts = pytest.mark.skipif(not _can_mount(), reason="nothing can be mounted here: needs unshare and the right")


@contextmanager
def serving(script: str, store: Path) -> Iterator[tuple[str, Path]]:
    """A proxy with that store, in a mount namespace in which `script` was run: its admin URL and its log."""
    log = store.parent.with_name("log")
    command = ["unshare", "-m", "sh", "-c", f'{script}; exec "$@"', "sh", sys.executable, "-m", "a2a_eval_proxy"]
    command += ["serve", "--upstream", "http://127.0.0.1:1", "--no-otlp", "--store", str(store)]
    command += ["--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--timeouts", "shutdown=1"]
    with (
        log.open("wb") as errors,
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, text=True) as proxy,
    ):
        try:
            assert proxy.stdout is not None
            ready = re.search(r"admin (\S+),", proxy.stdout.readline())
            assert ready, log.read_text()
            yield ready.group(1), log
        finally:
            proxy.terminate()
            assert proxy.wait(PATIENCE_S) == 0


@needs_mounts
@pytest.mark.parametrize(
    ("script", "problem"),
    [
        ("mount -t tmpfs -o size=64k tmpfs {0} && dd if=/dev/zero of={0}/full bs=4k 2>/dev/null", "full"),
        ("mount --bind {0} {0} && mount -o remount,ro,bind {0}", "Read-only file system"),
    ],
)
def test_a_proxy_starts_on_a_disk_that_cannot_be_written(tmp_path: Path, script: str, problem: str) -> None:
    folder = tmp_path / "disk"
    folder.mkdir()
    with (
        serving(script.format(folder), folder / "turns.db") as (admin, log),
        urllib.request.urlopen(f"{admin}/readyz") as ready,
    ):
        assert ready.read() == b"ready\nstore: unavailable, turns wait in memory\n"
    told = log.read_text()
    assert len(re.findall("retrying", told)) == 1
    assert problem in told
    assert "Traceback" not in told
