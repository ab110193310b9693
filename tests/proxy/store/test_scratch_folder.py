"""Temporary folders of commands."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

HOLDING = """
import pathlib, sys, time
from a2a_eval_proxy.store.sqlite.scratch_folder import ScratchFolder
folder = ScratchFolder()
pathlib.Path(folder.name, "turns.db").write_text("turns")
print(folder.name, flush=True)
sys.stdin.read()
"""


@pytest.mark.skipif(sys.platform == "win32", reason="no file locks")
def test_the_folder_of_a_killed_process_goes_and_that_of_a_running_one_stays(tmp_path: Path) -> None:
    environment = os.environ | {"TMPDIR": str(tmp_path)}
    command = [sys.executable, "-c", HOLDING]
    processes = [
        subprocess.Popen(command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        for _ in range(2)
    ]
    killed, running = processes
    assert killed.stdout is not None
    assert running.stdout is not None
    folders = [Path(process.stdout.readline().strip()) for process in processes]
    killed.kill()
    killed.communicate()
    (tmp_path / "a2a-eval-proxy-scratch-link").symlink_to(tmp_path)
    long_ago = tmp_path.stat().st_mtime - 3600
    for folder in folders:
        os.utime(folder / ".in-use", (long_ago, long_ago))

    ended = subprocess.run(command, env=environment, input="", capture_output=True, text=True, check=True)

    assert [folder.exists() for folder in folders] == [False, True]
    assert not Path(ended.stdout.strip()).exists()
    running.communicate("")
    assert not folders[1].exists()
    assert tmp_path.exists()
