"""`evaluate --engine ray`: turns are scored in Ray tasks; the store and its turns stay with the command."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Sequence
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import ConfigError
from ..feature import Feature

if TYPE_CHECKING:
    from tool_call_evaluators.suite import Suite

    from ..privacy.policy import Privacy
    from ..scoring.scorer import Call, Scorer

_CALLS_PER_TASK = 50
_TASKS_PER_CPU = 2  # while one is being scored, the next is on its way
_MAX_ERROR = 500  # characters of an error of Ray's: some hold the traceback of another process
_ENVIRONMENT = {  # of a Ray that we start
    "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",  # on whatever system: it listens on loopback alone
    "RAY_USAGE_STATS_ENABLED": "0",  # else each start is reported to its makers
}


class RayExecutor:
    """A `ScoringExecutor`. Each process of Ray builds the evaluators of `suite` once, and scores like `ThreadExecutor`.

    What it needs is looked for where it is here: plug-in files and programs at the same path, the key of a judge in
    the same variable, the answers of judges in the store at `location`.

    Ray is that of the cluster which RAY_ADDRESS names; without, it is started on the loopback of this machine, and
    `close` stops it. Raises ConfigError where Ray is not installed, ExecutorLostError where there is no such
    cluster.
    """

    def __init__(self, suite: Suite, location: str, privacy: Privacy) -> None:
        if find_spec("ray") is None:
            raise ConfigError("the engine ray is not installed: pip install 'a2a-eval-proxy[ray]'")
        address = os.environ.get("RAY_ADDRESS") or "local"
        os.environ |= _ENVIRONMENT if address == "local" else {}
        import ray
        from ray.exceptions import RayError

        from ..scoring.scorer import ExecutorLostError
        from ..settings.store_url import file_path, is_postgres

        self._privacy = privacy
        self._ray_error: type[Exception] = RayError
        self._lost_error = ExecutorLostError
        location = location if is_postgres(location) else str(Path(file_path(location)).resolve())
        host, _, port = address.rpartition("/")[2].rpartition(":")
        try:
            if port.isdecimal():  # where nothing listens, Ray would try for minutes
                socket.create_connection((host.strip("[]"), int(port)), timeout=10).close()
            ray.init(address, logging_level="error", **({"include_dashboard": False} if address == "local" else {}))
            self._evaluators = [ray.put((suite, location))]  # in a list, so that a task gets the reference
            cpus = int(ray.cluster_resources().get("CPU", 1))
        except (RayError, OSError, RuntimeError, ValueError) as error:
            raise ExecutorLostError(f"Ray cannot be used ({address}): {_one_line(error)}") from error
        self._tasks = _TASKS_PER_CPU * max(1, cpus)
        self.batch: int = _CALLS_PER_TASK * self._tasks  # turns to be given at a time, so that no CPU waits for work
        self._asked = ray.remote(_asked)

    async def ask(self, calls: Sequence[Call[Any]]) -> list[Any]:
        size = max(1, min(_CALLS_PER_TASK, len(calls) // self._tasks))
        parts = [calls[start : start + size] for start in range(0, len(calls), size)]
        try:
            done = await asyncio.gather(*(self._asked.remote(self._evaluators, part) for part in parts))
        except self._ray_error as error:
            left = "turns that are not scored yet stay as they were"
            raise self._lost_error(f"Ray failed: {_one_line(error)}; {left}") from error
        return [result and self._privacy.stored_results(result) for part in done for result in part]

    def close(self) -> None:
        import ray

        ray.shutdown()


def _one_line(error: Exception) -> str:
    """What was raised in a task comes wrapped, with the traceback of the other process."""
    from tool_call_evaluators.texts import one_line

    cause = getattr(error, "cause", None) or error
    return f"{type(cause).__name__}: {one_line(str(cause), _MAX_ERROR)}"


# ── in a process of Ray ─────────────────────────────────────────────────────────────────────────────────────


def _asked(evaluators: list[Any], calls: Sequence[Call[Any]]) -> list[Any]:
    from ..scoring.scorer import gathered

    scorer, runner = _evaluators(evaluators[0])
    return runner.run(gathered(call(scorer) for call in calls))


@lru_cache(maxsize=1)
def _evaluators(reference: Any) -> tuple[Scorer, asyncio.Runner]:
    """Those of this process, and the event loop on which they always wait: clients of judges are bound to one."""
    import ray
    from tool_call_evaluators.plugins import load_plugin

    from ..scoring.case_book import CaseBook
    from ..scoring.scorer import Scorer
    from ..store import open_store

    suite: Suite
    suite, location = ray.get(reference)
    for path in suite.plugins:
        load_plugin(path)
    return Scorer(CaseBook(suite), suite, open_store(location, patient=True).judge_cache), asyncio.Runner()


FEATURE = Feature(engines={"ray": RayExecutor})
