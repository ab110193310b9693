"""Watching: what open pages cost the traffic. The same load on proxies that no page watches, and that pages watch."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path

from support.chromium import chromium

from .browser import require_browser
from .part import BehaviourError, Measured, Part, Setting
from .report import Metric, Values, ms, per
from .targets import STAGES, Running, TargetUnavailableError
from .traffic import Bench, benching, check
from .watchers import watching

PAGES = 3
UNWATCHED, WATCHED, BROWSER = "no page", f"{PAGES} pages", f"{PAGES} windows of Chromium"
STREAMS = 100
METRICS = (
    Metric("watching_1_per_s", "requests/s", "1 connection"),
    Metric("watching_16_per_s", "requests/s", "16 connections"),
    Metric("watching_1_us", "CPU per request, µs", "1 connection"),
    Metric("watching_16_us", "CPU per request, µs", "16 connections"),
    Metric("watching_event_us", "CPU per event, µs", f"{STREAMS} streams"),
    Metric("watching_p50_ms", "delay per event p50, ms", f"{STREAMS} streams"),
    Metric("watching_p99_ms", "delay per event p99, ms", f"{STREAMS} streams"),
)


def watching_part(watchers: Sequence[str] = (UNWATCHED, WATCHED, BROWSER)) -> Part:
    """The part, for proxies watched like that."""
    return Part("watching", METRICS, WATCHED, (UNWATCHED,), partial(_measure, watchers=watchers), by_target=True)


def _measure(setting: Setting, watchers: Sequence[str]) -> Measured:
    """All proxies run at once, idle but for the one under load; rounds alternate between them."""
    target = STAGES[-1]
    with benching(setting) as bench, ExitStack() as stack:
        started: dict[str, Running] = {}
        for name in watchers:
            folder = Path(tempfile.mkdtemp(dir=setting.folder))
            process = stack.enter_context(target.started(bench.agent_port, folder, setting.subject_cpus))
            check(target, process, bench.load, [target.asks])
            try:
                stack.enter_context(_watched(name, process, folder, setting))
            except TargetUnavailableError as error:
                bench.warnings.append(f"{name} left out: {error}")
                continue
            bench.warm_up(process)
            started[name] = process
        measured = Measured(list(started), warnings=bench.warnings)
        for number in range(1, setting.plan.rounds + 1):
            values = measured.next_round()
            for name, process in started.items():
                setting.progress(f"round {number} of {setting.plan.rounds}: watched by {name}")
                values[name] = _values(process, bench)
    return measured


@contextmanager
def _watched(name: str, process: Running, folder: Path, setting: Setting) -> Iterator[None]:
    assert process.admin_url is not None
    if name == WATCHED:
        with watching(process.admin_url, PAGES, setting.other_cpus) as pages:
            yield
            if not all(page.events and page.fetches for page in pages):
                raise BehaviourError("a page received no live events")
    elif name == BROWSER:
        require_browser()
        with chromium(folder) as session:
            for _ in range(PAGES):
                session.switch_to.new_window("window")
                session.get(process.admin_url)
            yield
    else:
        yield


def _values(process: Running, bench: Bench) -> Values:
    values: Values = {}
    for connections in (1, 16):
        result, cpu_s = bench.unary(process, connections, bench.plan.stage_s)
        values[f"watching_{connections}_per_s"] = result["requests"] / result["elapsed_s"]
        values[f"watching_{connections}_us"] = per(cpu_s, result["requests"])
    result, cpu_s = bench.streams(process, STREAMS, bench.plan.stage_events)
    values["watching_event_us"] = per(cpu_s, result["events"])
    return values | {f"watching_{key}_ms": ms(result["delay_us"][key]) for key in ("p50", "p99")}
