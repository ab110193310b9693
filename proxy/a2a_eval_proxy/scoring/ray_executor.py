"""`evaluate --engine ray`: turns are scored in Ray tasks; the store and its turns stay with the command."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Awaitable, Mapping, Sequence
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlsplit

from tool_call_evaluators.agent_tree import AgentTurn
from tool_call_evaluators.plugins import load_plugin
from tool_call_evaluators.suite import Suite
from tool_call_evaluators.texts import one_line

from ..errors import BAD_INPUT
from ..privacy.policy import NO_PRIVACY, Privacy
from ..settings.store_url import file_path, is_postgres
from ..store import judge_cache_at
from .case_book import CaseBook
from .executor import ExecutorLostError, ToScore, gathered
from .scorer import NO_TREES, Results, Scorer, TurnJson

T = TypeVar("T")

_TURNS_PER_TASK = 50
_TASKS_PER_CPU = 2
"""While one is being scored, the next is on its way."""

_CONNECT_S = 10.0

_MAX_ERROR = 500
"""Characters of an error of Ray's: some hold the traceback of another process."""

_ENVIRONMENT = {
    "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",  # on whatever system: it listens on loopback alone
    "RAY_USAGE_STATS_ENABLED": "0",  # else each start is reported to its makers
}
"""Of a Ray that we start."""


class RayMissingError(Exception):
    """Ray is not installed; the message says how to install it."""

    exit_code = BAD_INPUT


class RayExecutor:
    """A `ScoringExecutor`. Each process of Ray builds the evaluators of `suite` once, and scores like `ThreadExecutor`.

    What it needs is looked for where it is here: plug-in files and programs at the same path, the key of a judge in
    the same variable, the answers of judges in the store at `location`.

    Ray is that of the cluster which RAY_ADDRESS names; without, it is started on the loopback of this machine, and
    `close` stops it. Raises RayMissingError, and ExecutorLostError where there is no such cluster.
    """

    def __init__(self, suite: Suite, location: str, privacy: Privacy = NO_PRIVACY) -> None:
        if find_spec("ray") is None:
            raise RayMissingError("the engine ray is not installed: pip install 'a2a-eval-proxy[ray]'")
        address = os.environ.get("RAY_ADDRESS") or "local"
        _check_reachable(address)
        os.environ |= _ENVIRONMENT if address == "local" else {}
        import ray
        from ray.exceptions import RayError

        self._privacy = privacy
        self._lost: type[Exception] = RayError
        location = location if is_postgres(location) else str(Path(file_path(location)).resolve())
        try:
            ray.init(address, logging_level="error", **({"include_dashboard": False} if address == "local" else {}))
            self._evaluators = [ray.put((suite, location))]  # in a list, so that a task gets the reference
            cpus = int(ray.cluster_resources().get("CPU", 1))
        except (RayError, OSError, RuntimeError, ValueError) as error:
            raise ExecutorLostError(f"Ray cannot be used ({address}): {_one_line(error)}") from error
        self.batch: int = _TURNS_PER_TASK * _TASKS_PER_CPU * max(1, cpus)
        """Turns to be given at a time, so that no CPU waits for work."""
        self._score_turns = ray.remote(_score_turns)
        self._score_conversation = ray.remote(_score_conversation)

    async def score(self, work: Sequence[ToScore]) -> list[Results]:
        parts = [work[start : start + _TURNS_PER_TASK] for start in range(0, len(work), _TURNS_PER_TASK)]
        done = await self._all([self._score_turns.remote(self._evaluators, part) for part in parts])
        return [self._privacy.stored_results(result) for part in done for result in part]

    async def score_conversations(
        self, conversations: Sequence[Sequence[TurnJson]], trees: Mapping[str, AgentTurn] = NO_TREES
    ) -> list[Results | None]:
        tasks = []
        for turns in conversations:
            own = {turn["turn_id"]: trees[turn["turn_id"]] for turn in turns if turn["turn_id"] in trees}
            tasks.append(self._score_conversation.remote(self._evaluators, turns, own))
        done = await self._all(tasks)
        return [results and self._privacy.stored_results(results) for results in done]

    def close(self) -> None:
        import ray

        ray.shutdown()

    async def _all(self, tasks: Sequence[Awaitable[T]]) -> list[T]:
        try:
            return await asyncio.gather(*tasks)
        except self._lost as error:
            reason = _one_line(error)
            raise ExecutorLostError(f"Ray failed: {reason}; turns that are not scored yet stay as they were") from error


def _check_reachable(address: str) -> None:
    """Raises ExecutorLostError where nothing listens at HOST:PORT: Ray would try for minutes."""
    parts = urlsplit(address if "://" in address else f"//{address}")
    try:
        if parts.hostname and parts.port:
            socket.create_connection((parts.hostname, parts.port), _CONNECT_S).close()
    except (OSError, ValueError) as error:
        raise ExecutorLostError(f"no Ray cluster at {address!r}, of the variable RAY_ADDRESS: {error}") from error


def _one_line(error: Exception) -> str:
    """What was raised in a task comes wrapped, with the traceback of the other process."""
    cause = getattr(error, "cause", None) or error
    return f"{type(cause).__name__}: {one_line(str(cause), _MAX_ERROR)}"


# ── in a process of Ray ─────────────────────────────────────────────────────────────────────────────────────


def _score_turns(evaluators: list[Any], turns: Sequence[ToScore]) -> list[Results]:
    scorer, runner = _evaluators(evaluators[0])
    return runner.run(gathered(scorer.score(*turn) for turn in turns))


def _score_conversation(
    evaluators: list[Any], turns: Sequence[TurnJson], trees: Mapping[str, AgentTurn]
) -> Results | None:
    scorer, runner = _evaluators(evaluators[0])
    return runner.run(scorer.score_conversation(turns, trees))


@lru_cache(maxsize=1)
def _evaluators(reference: Any) -> tuple[Scorer, asyncio.Runner]:
    """Those of this process, and the event loop on which they always wait: clients of judges are bound to one."""
    import ray

    suite: Suite
    suite, location = ray.get(reference)
    for path in suite.plugins:
        load_plugin(path)
    return Scorer(CaseBook(suite), suite, judge_cache_at(location)), asyncio.Runner()
