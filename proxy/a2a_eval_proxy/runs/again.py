"""Runs cases of a suite file, in a process of its own: for programs that serve something else meanwhile."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Sequence

from ..errors import ConfigError

_MAX_MESSAGE = 2_000  # characters, the last ones


async def run_program(
    suite: str,
    run: str,
    store: str,
    *,
    agent: str | None = None,
    cases: Sequence[str] = (),
    tags: Sequence[str] = (),
    allow_plugins: bool = False,
) -> str:
    """The output of `run` with these cases, or all.

    Raises ConfigError with the message of the program where the run did not take place. It ends with its caller.
    """
    given = [suite, f"--run={run}", *(f"--case={case}" for case in cases), *(f"--tag={tag}" for tag in tags)]
    given += ["--agent", agent] if agent else []
    given += ["--allow-plugins"] if allow_plugins else []
    program = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "a2a_eval_proxy", "run", *given,
        stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
        env={**os.environ, "A2A_EVAL_PROXY_STORE": store},
    )  # fmt: skip  # in the arguments, others would see the password of a store
    try:
        out, err = await program.communicate()
    finally:
        if program.returncode is None:
            program.terminate()
    if program.returncode not in (0, 1):
        raise ConfigError(err.decode(errors="replace").strip()[-_MAX_MESSAGE:])
    return out.decode(errors="replace")
