"""Workers over one PostgreSQL store: how many turns they score per second, one, two and four of them."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from contextlib import ExitStack, closing
from pathlib import Path

import psycopg
from a2a_eval_proxy.store.postgres.store import PostgresStore
from a2a_eval_proxy.turn import Turn
from support.postgres_server import PostgresServer, running_postgres, why_not
from support.prefork import COMMAND
from support.processes import ChildProcess
from support.turn_samples import many_turns

from .part import BehaviourError, Measured, Part, Setting
from .report import Metric
from .targets import TargetUnavailableError

COUNTS = (1, 2, 4)
NAMES = {count: f"{count} worker{'s' * (count > 1)}" for count in COUNTS}
COMPUTED, AWAITED = "workers_computed", "workers_awaited"
METRICS = (
    Metric(COMPUTED, "Scored by workers, turns/s", "evaluators that compute"),
    Metric(AWAITED, "Scored by workers, turns/s", "one that waits a second, as for a judge"),
)

_SUITES = {
    COMPUTED: "evaluators: [tool_error, tool_call_count, {tool_trajectory: {mode: in_order}}]\n",
    AWAITED: "plugins: [waits.py]\nevaluators: [tool_error, waits]\n",
}
_SHARES = {COMPUTED: 1, AWAITED: 5}
"""What part of the turns is scored: waiting takes its time."""
_PLUGIN = """\
import asyncio
from tool_call_evaluators import metric

@metric()
async def waits(case) -> bool:
    await asyncio.sleep(1)
    return True
"""
_READY = r"worker ready: "
_BATCH = 20


def _measure(setting: Setting) -> Measured:
    if reason := why_not():
        raise TargetUnavailableError(reason)
    shared = "workers are not pinned: they, PostgreSQL and the program that adds turns share all CPUs"
    measured = Measured(list(NAMES.values()), warnings=[shared])
    with running_postgres() as server:
        for number in range(1, setting.plan.rounds + 1):
            of_round = measured.next_round()
            for count, name in NAMES.items():
                setting.progress(f"round {number} of {setting.plan.rounds}: {name}")
                for key, share in _SHARES.items():
                    suite = suite_file(setting.folder, key)
                    of_round[name][key] = turns_per_s(server, suite, count, setting.plan.queued // share)
    return measured


WORKERS = Part("workers", METRICS, NAMES[4], (NAMES[1],), _measure)


def suite_file(folder: Path, key: str) -> Path:
    """The suite by whose evaluators a metric is measured, written into `folder`."""
    (folder / "waits.py").write_text(_PLUGIN)
    path = folder / f"{key}.yaml"
    path.write_text(f"suite: {key}\n{_SUITES[key]}cases: []\n")
    return path


def turns_per_s(server: PostgresServer, suite: Path, workers: int, turns: int) -> float:
    """From the first turn that is handed to the store until the last is scored; the workers are waiting."""
    url = server.new_database()
    with closing(PostgresStore(url, for_workers=True)) as store, ExitStack() as stack:
        command = [COMMAND, "worker", "--store", url, "--suite", str(suite)]
        children = [stack.enter_context(ChildProcess(command)) for _ in range(workers)]
        for child in children:
            child.wait_for(_READY)
        batches = _batches(turns)
        began = time.perf_counter()
        for batch in batches:
            if not store.add(batch, lambda: None):
                raise BehaviourError(f"the store does not take {turns} turns in a row")
        asyncio.run(store.drained())
        with psycopg.connect(url, autocommit=True) as connection:
            while connection.execute("SELECT FROM turns WHERE status = 'pending' LIMIT 1").fetchone() is not None:
                time.sleep(0.02)
        return turns / (time.perf_counter() - began)


def _batches(turns: int) -> list[Sequence[Turn]]:
    """Turns of about a kilobyte, as many at a time as a proxy under load hands over."""
    samples = [Turn.from_dict({**turn, "status": "pending", "case_id": None}) for turn in many_turns(turns)]
    return [samples[start : start + _BATCH] for start in range(0, turns, _BATCH)]
