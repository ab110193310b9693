"""Settings shared by all tests."""

from __future__ import annotations

import gc
import importlib
import logging
import os
import sys
from collections.abc import Generator, Iterable, Iterator
from pathlib import Path

import pytest
from httpx._config import DEFAULT_TIMEOUT_CONFIG
from hypothesis import HealthCheck, settings
from support.patience import PATIENCE_S
from support.ports import held_ports
from support.postgres_server import PostgresServer, running_postgres, why_not
from support.ssl_context import share_ssl_context
from support.time_spent import TimeSpent

# Whether a property holds does not depend on how busy the machine is. A change is tried with the same examples each
# time, so that what fails is of the change; `make nightly` tries others.
for _profile, _examples, _same in (("quick", 10, True), ("suite", 50, True), ("thorough", 500, False)):
    settings.register_profile(
        _profile,
        deadline=None,
        suppress_health_check=[HealthCheck.too_slow],
        max_examples=_examples,
        derandomize=_same,
    )
settings.load_profile("suite")  # another one by --hypothesis-profile

# Hundreds of processes import the same modules: without bytecode on disk, each would compile them again.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

# Nothing in this process records the spans of a2a-sdk, which reads this setting when it is imported: making them takes
# agents of the tests a fifth of their time. Processes that the tests start are as users start them.
with pytest.MonkeyPatch.context() as _patch:
    _patch.setenv("OTEL_INSTRUMENTATION_A2A_SDK_ENABLED", "false")
    importlib.import_module("a2a.utils.telemetry")

_NAMED_BYTES = 16
_PROCESS = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
_PROCESSES = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))

share_ssl_context()

# Clients that name no limit, those of a2a-sdk among them, give up after 5 s: a machine may stand still for longer.
for _step in ("connect", "read", "write", "pool"):
    setattr(DEFAULT_TIMEOUT_CONFIG, _step, PATIENCE_S)


pytest_plugins = ("support.running", "support.changes")


def pytest_configure(config: pytest.Config) -> None:
    if config.option.durations:  # who asks for the slowest tests asks where the time goes
        config.pluginmanager.register(TimeSpent())


def pytest_make_parametrize_id(val: object) -> str | None:
    """Long bytes by their length: what gzip makes holds the time, and all processes must call a test the same."""
    return f"{len(val)} bytes" if isinstance(val, bytes) and len(val) > _NAMED_BYTES else None


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """What is collected stays to the end: nothing becomes garbage."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """No garbage is collected while a report is made, so that a failing test costs itself and not the run.

    A report parses the source of each frame. Finalizers of garbage that is collected meanwhile may format tracebacks,
    which parses too. In CPython 3.11, one parse inside another raises SystemError (gh-106905), which ends the run. A
    test over its time leaves such garbage behind: the tasks it did not await.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()


class _Folder(pytest.Dir):
    """Collected from another place on in each process of pytest-xdist, so that each compiles other files: in a new
    clone, all four would compile each file at the same moment."""

    def collect(self) -> Iterable[pytest.Item | pytest.Collector]:
        found = list(super().collect())
        first = len(found) * _PROCESS // _PROCESSES
        return found[first:] + found[:first]


def pytest_collect_directory(path: Path, parent: pytest.Collector) -> pytest.Dir:
    return _Folder.from_parent(parent, path=path)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Files with slow tests first: a process that got one last would work on while the others have nothing left.

    Tests that ask for PostgreSQL, by the name of a fixture or of a parameter, have the marker `database`.
    """
    for item in items:
        parameters = getattr(getattr(item, "callspec", None), "params", {}).values()
        names = (*getattr(item, "fixturenames", ()), *(value for value in parameters if isinstance(value, str)))
        if any("postgres" in name for name in names):
            item.add_marker("database")
    slow = {item.path for item in items if item.get_closest_marker("slow")}
    items.sort(key=lambda item: (item.path not in slow, item.path))


@pytest.fixture(autouse=True)
def level_of_logs() -> Iterator[None]:
    """Commands set it, also those that a test calls in this process."""
    level = logging.getLogger().level
    yield
    logging.getLogger().setLevel(level)


@pytest.fixture
def port() -> Iterator[int]:
    """A port of loopback on which no process listens, until the test does."""
    with held_ports(1) as (held,):
        yield held


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    """A PostgreSQL server for all tests of this process, each of which has the marker `database`."""
    from support.running import require_marker  # a plugin: pytest imports it first

    require_marker("database")
    if reason := why_not():
        pytest.skip(reason)
    with running_postgres() as server:
        yield server
