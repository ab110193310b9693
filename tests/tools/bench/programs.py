"""The C programs of the benchmark: the agent (c/upstream.c) and the load generator (c/load.c)."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .part import BehaviourError, UnavailableTargetError
from .procfs import pin_to

SOURCES = Path(__file__).parent / "c"


def compile_c(name: str, folder: Path) -> Path:
    """Compile `c/NAME.c` into `folder`, once, and return the program.

    Raises UnavailableTargetError where there is no C compiler, CalledProcessError where it fails.
    """
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if compiler is None:
        raise UnavailableTargetError("the benchmark needs a C compiler (cc): apt-get install gcc libc6-dev")
    program = folder / name
    if not program.exists():
        options = ["-O2", "-std=gnu11", "-Wall", "-Wextra", "-o", str(program), str(SOURCES / f"{name}.c")]
        subprocess.run([compiler, *options], check=True)
    return program


@contextmanager
def running_agent(program: Path, cpus: set[int]) -> Iterator[int]:
    """Start the compiled agent on `cpus`, give its port, stop it afterwards."""
    with subprocess.Popen([str(program)], stdout=subprocess.PIPE, preexec_fn=pin_to(cpus)) as process:
        try:
            yield json.loads(process.stdout.readline())["port"]
        finally:
            process.terminate()


@dataclass(frozen=True)
class LoadGenerator:
    """The compiled program and the CPUs it may use. Results are its JSON objects, described in c/load.c.

    Raises BehaviourError, with what it said, where it cannot do its work.
    """

    program: Path
    cpus: set[int]

    def unary(
        self, port: int, *, connections: int, seconds: float, requests: int | None = None, ask: bool = False
    ) -> dict[str, Any]:
        """SendMessage in a closed loop; ends after `seconds` or `requests`, whichever comes first."""
        options = [f"--connections={connections}", f"--seconds={seconds}"]
        if requests is not None:
            options.append(f"--requests={requests}")
        return self._run("unary", port, options, ask)

    def streams(
        self,
        port: int,
        *,
        streams: int,
        events: int,
        interval_ms: float,
        ask: bool = False,
        when_open: Callable[[int], None] = lambda opened: None,
    ) -> dict[str, Any]:
        """Concurrent SSE streams. `when_open` is called with the number of open ones once none is missing (or late)."""
        options = [f"--streams={streams}", f"--events={events}", f"--interval-ms={interval_ms}"]
        return self._run("streams", port, options, ask, when_open)

    def _run(
        self,
        mode: str,
        port: int,
        options: list[str],
        ask: bool,
        when_open: Callable[[int], None] = lambda opened: None,
    ) -> dict[str, Any]:
        command = [str(self.program), mode, f"--port={port}", *options, *(["--ask"] if ask else [])]
        message: dict[str, Any] = {}
        with subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, preexec_fn=pin_to(self.cpus)
        ) as process:
            for line in process.stdout:
                message = json.loads(line)
                if "open" in message:
                    when_open(message["open"])
            said = process.stderr.read().strip()
        if process.returncode:
            raise BehaviourError(f"{' '.join(command)} ended with code {process.returncode}: {said}")
        return message
