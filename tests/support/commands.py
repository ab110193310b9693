"""Commands in the process of a test, and what an agent gets of them."""

from __future__ import annotations

import io
import logging
import shlex
import subprocess
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

import httpx
import pytest
from a2a_eval_proxy.cli import main


def ended(command: str, *more: str) -> int:
    """Run a command line, which is split as a shell does it, and `more` words; its exit code.

    It prints to `sys.stdout` and `sys.stderr`.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("sys.argv", ["a2a-eval-proxy", *shlex.split(command), *more])
        patch.setattr(logging.getLogger(), "handlers", [])  # a command adds one, whose stream ends with the test
        with pytest.raises(SystemExit) as stopped:
            main()
    return int(stopped.value.code or 0)


def run(*words: str | Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run a command line with these variables, as `prefork.run` does in a process of its own."""
    out, err = (io.TextIOWrapper(io.BytesIO(), encoding="utf-8") for _ in range(2))
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(out), redirect_stderr(err):
        for name, value in environment.items():
            patch.setenv(name, value)
        code = ended("", *map(str, words))
    for stream in (out, err):
        stream.seek(0)
    return subprocess.CompletedProcess(words, code, out.read(), err.read())


def messages(agent: str) -> int:
    """How many messages the scenario agent at this URL has received."""
    requests = httpx.get(f"{agent}/_control/requests", trust_env=False).json()
    return sum(request["method"] == "POST" for request in requests)
