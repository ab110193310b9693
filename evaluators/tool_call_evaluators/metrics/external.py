"""`external`: a metric computed by any program that reads JSON and writes JSON."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from collections.abc import Mapping, Sequence
from contextlib import closing, suppress
from typing import Any, cast

from ..evaluator import AsyncEvaluator, Measurement
from ..model import EvalCase
from ..options import OptionError
from ..registry import register
from .custom import measurement_of

MAX_OUTPUT_BYTES = 1_000_000
"""Maximum size of the output; a program that writes more is killed."""
_EXCERPT_BYTES = 2_000
_END_S = 1.0
"""How long the pipes of a program that has ended may stay open."""
_STDERR = 2


class ExternalError(Exception):
    """The program could not be run, failed, timed out, or wrote no valid result; the message says which."""


@register
class External(AsyncEvaluator):
    """The score that a program of yours writes, in any language.

    The program `command` runs once for each turn or conversation, without a shell. It reads one JSON object from its
    standard input, `{version: 1, metric, scope, options, case}`, and writes one JSON value to its standard output: a
    score on `scale`, true or false, one of `labels`, or an object with `score`, `label`, `reason` and `details`, or
    with `skipped`, the reason why nothing was measured.

    The result is errored if the program ends with a code other than 0, does not finish within `timeout`, writes more
    than 1 MB, or writes another value. When it ends, all processes of its group are killed. It runs with your rights
    and environment: name only programs that you trust.

    Example:

        evaluators:
          - external: {command: [./score.py], id: my_metric, timeout: 10}
    """

    reads = None

    command: Sequence[str]
    """The program and its arguments; of a suite, relative to its file."""
    timeout: float = 30.0
    """Maximum run time in seconds."""
    options: Mapping[str, Any] | None = None
    """Passed to the program."""
    scale: Sequence[float] = (0.0, 1.0)  # type: ignore[misc,assignment]  # an option here
    """Lowest and highest score."""
    labels: Mapping[str, float] | None = None
    """The score of each label that the program may return."""
    tree: bool = False
    """Whether `case`, and each of its `turns`, has the `tree` of turns that it caused, as in `GET
    /api/turns/{turn_id}/tree`: a turn is scored once these are over."""
    folder: str | None = None
    """The working directory of the program. None: the current directory; in a suite file: the suite's directory."""

    def __post_init__(self) -> None:
        if len(self.scale) != 2 or not self.scale[0] < self.scale[1]:
            raise OptionError(f"external: option scale must be [lowest, highest]; got {self.scale!r}", "scale")
        object.__setattr__(self, "scale", tuple(self.scale))  # the dataclass is frozen
        if self.tree:
            object.__setattr__(self, "needs", ("trees",))
        super().__post_init__()
        if not self.command or not self.command[0]:
            raise OptionError("external: option command must be a list with at least the program", "command")
        if not 0 < self.timeout < 1e6:
            raise OptionError(
                f"external: option timeout must be a positive number of seconds; got {self.timeout!r}", "timeout"
            )

    async def measure(self, case: EvalCase) -> Measurement:
        request = {
            "version": 1,
            "metric": self.metric,
            "scope": "turn" if case.turns is None else "conversation",
            "options": dict(self.options or {}),
            "case": case.to_dict(),
        }
        output = await output_of(self.command, json.dumps(request, default=str).encode(), self.timeout, self.folder)
        try:
            return measurement_of(json.loads(output), self.labels)
        except (ValueError, RecursionError) as error:
            excerpt = output[:_EXCERPT_BYTES].decode(errors="replace").strip() or "nothing"
            raise ExternalError(f"{self.command[0]} wrote no valid result ({error}): {excerpt}") from None


class _Program(asyncio.SubprocessProtocol):
    """What a program writes, and its end."""

    def __init__(self) -> None:
        self.output = bytearray()
        self.complaint = b""
        """The end of its standard error."""
        self.done = asyncio.Event()
        """Set when the program has ended, or has written too much."""
        self.closed = asyncio.Event()
        """Set when the program has ended and its pipes are closed."""

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        if fd == _STDERR:
            self.complaint = (self.complaint + data)[-_EXCERPT_BYTES:]
        elif len(self.output) <= MAX_OUTPUT_BYTES:
            self.output += data
            if len(self.output) > MAX_OUTPUT_BYTES:
                self.done.set()

    def process_exited(self) -> None:
        self.done.set()

    def connection_lost(self, exc: Exception | None) -> None:
        self.closed.set()


async def output_of(command: Sequence[str], data: bytes, timeout_s: float, folder: str | None) -> bytes:
    """The output of the program for the input `data`. Raises ExternalError. Leaves nothing of its group running."""
    loop = asyncio.get_running_loop()
    try:
        transport, program = await loop.subprocess_exec(_Program, *command, cwd=folder, start_new_session=True)
    except (OSError, ValueError) as error:
        raise ExternalError(f"{command[0]} cannot be run: {getattr(error, 'strerror', None) or error}") from None
    stdin = cast("asyncio.WriteTransport", transport.get_pipe_transport(0))
    with closing(transport):
        try:
            with suppress(RuntimeError):  # of uvloop, where it is closed: a program need not read it
                stdin.write(data)
                stdin.write_eof()
            async with asyncio.timeout(timeout_s):
                await program.done.wait()
        except TimeoutError:
            raise ExternalError(f"{command[0]} did not finish within {timeout_s:g} s") from None
        finally:
            with suppress(ProcessLookupError, PermissionError):  # all have ended already
                os.killpg(transport.get_pid(), signal.SIGKILL)
            if not stdin.is_closing() and stdin.get_write_buffer_size():
                stdin.abort()
            with suppress(TimeoutError):  # a process that has left the group holds a pipe, but the output is read
                async with asyncio.timeout(_END_S):
                    await program.closed.wait()
    if len(program.output) > MAX_OUTPUT_BYTES:
        raise ExternalError(f"{command[0]} wrote more than {MAX_OUTPUT_BYTES:,} bytes")
    if (status := transport.get_returncode()) != 0:
        message = program.complaint.decode(errors="replace").strip()
        raise ExternalError(f"{command[0]} ended with exit code {status}" + (f": {message}" if message else ""))
    return bytes(program.output)
