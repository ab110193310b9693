"""Workers over one PostgreSQL store: how many turns they score per second, one, two and four of them."""

from __future__ import annotations

import asyncio
import time
from contextlib import ExitStack, closing
from pathlib import Path

import psycopg
from a2a_eval_proxy.store.postgres.store import PostgresStore
from a2a_eval_proxy.turn import Turn
from support.postgres_server import PostgresServer, running_postgres, why_not
from support.prefork import COMMAND
from support.processes import ChildProcess
from support.turn_samples import many_turns

from .part import BehaviourError, Measured, Metric, Setting, UnavailableTargetError

TARGETS = {"1 worker": 1, "2 workers": 2, "4 workers": 4}
METRICS = (
    Metric("workers_computed", "Scored by workers, turns/s", "evaluators that compute"),
    Metric("workers_awaited", "Scored by workers, turns/s", "one that waits a second, as for a judge"),
)
SUITES = {
    "workers_computed": ("evaluators: [tool_error, tool_call_count, {tool_trajectory: {mode: in_order}}]\n", 1),
    "workers_awaited": ("plugins: [waits.py]\nevaluators: [tool_error, waits]\n", 5),
}
"""And what part of the turns is scored: waiting takes its time."""
_PLUGIN = """\
import asyncio
from tool_call_evaluators import metric

@metric()
async def waits(case) -> bool:
    await asyncio.sleep(1)
    return True
"""
_BATCH = 20
"""As many at a time as a proxy under load hands over."""


def workers(setting: Setting) -> Measured:
    if reason := why_not():
        raise UnavailableTargetError(reason)
    shared = "workers are not pinned: they, PostgreSQL and the program that adds turns share all CPUs"
    measured = Measured(METRICS, [*TARGETS], "4 workers", ["1 worker"], warnings=[shared])
    with running_postgres() as server:
        for number in range(1, setting.plan.rounds + 1):
            values = measured.next_round()
            for name, count in TARGETS.items():
                setting.progress(f"round {number} of {setting.plan.rounds}: {name}")
                for key, (_, share) in SUITES.items():
                    values[name][key] = turns_per_s(server, setting.folder, key, count, setting.plan.queued // share)
    return measured


def turns_per_s(server: PostgresServer, folder: Path, key: str, workers: int, turns: int) -> float:
    """Of a suite, from the first turn that is handed to the store until the last is scored; the workers are waiting."""
    url, suite = server.new_database(), folder / f"{key}.yaml"
    (folder / "waits.py").write_text(_PLUGIN)
    suite.write_text(f"suite: {key}\n{SUITES[key][0]}cases: []\n")
    with closing(PostgresStore(url, for_workers=True)) as store, ExitStack() as stack:
        command = [COMMAND, "worker", "--store", url, "--suite", str(suite)]
        children = [stack.enter_context(ChildProcess(command)) for _ in range(workers)]
        for child in children:
            child.wait_for("worker ready: ")
        samples = [Turn.from_dict({**turn, "status": "pending", "case_id": None}) for turn in many_turns(turns)]
        began = time.perf_counter()
        for start in range(0, turns, _BATCH):
            if not store.add(samples[start : start + _BATCH], lambda: None):
                raise BehaviourError(f"the store does not take {turns} turns in a row")
        asyncio.run(store.drained())
        with psycopg.connect(url, autocommit=True) as connection:
            while connection.execute("SELECT FROM turns WHERE status = 'pending' LIMIT 1").fetchone() is not None:
                time.sleep(0.02)
        return turns / (time.perf_counter() - began)
