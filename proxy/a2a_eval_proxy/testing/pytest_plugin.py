"""pytest plugin: a proxy before the agent as a fixture, gates and a report at the end of the session.

Nothing but pytest is imported until a test asks for a proxy, or the command line for a suite or a report.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from tool_call_evaluators.suite import Suite

    from .proxies import EvalProxy, Export, ProxyPool, SessionResult

MARKER = "a2a_case"
_NODE = "a2a-eval-proxy"  # what the short summary calls a reason for which the session failed
_RUN, _TURNS = "a2a_eval_proxy_run", "a2a_eval_proxy_turns"  # keys of what a worker of pytest-xdist gets and gives
_run: pytest.StashKey[str] = pytest.StashKey()
_suite: pytest.StashKey[Suite | None] = pytest.StashKey()
_case: pytest.StashKey[str | None] = pytest.StashKey()
_exported: pytest.StashKey[list[Export]] = pytest.StashKey()
_lost_workers: pytest.StashKey[list[str]] = pytest.StashKey()
_result: pytest.StashKey[SessionResult] = pytest.StashKey()


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("a2a-eval-proxy", "evaluation of A2A agents (a2a-eval-proxy)")
    group.addoption(
        "--a2a-agent", metavar="URL", help="URL of the agent under test, the target of the fixture a2a_proxy"
    )
    group.addoption(
        "--a2a-suite", metavar="FILE", help="score the turns with this suite; the session also fails if its gates do"
    )
    group.addoption(
        "--a2a-report", metavar="DIR", help="directory for a report of all turns, written at the end of the session"
    )
    parser.addini("a2a_agent", "URL of the agent under test, unless --a2a-agent is given", default="")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", f"{MARKER}(id): the turns of this test belong to this case")
    from ..ids import new_run_name

    stash = config.stash
    stash[_run] = getattr(config, "workerinput", {}).get(_RUN) or new_run_name("pytest")
    stash[_exported], stash[_lost_workers] = [], []
    stash[_case] = stash[_suite] = None
    if (file := _path(config, "a2a_suite")) is not None:
        from tool_call_evaluators.suite import SuiteError, load_suite

        try:
            stash[_suite] = load_suite(file)
        except SuiteError as error:
            raise pytest.UsageError(f"--a2a-suite: {error}") from None
    if (folder := _path(config, "a2a_report")) is not None and folder.exists() and not folder.is_dir():
        raise pytest.UsageError(f"--a2a-report: {folder} is a file; give a directory, or a name that is free")


def _path(config: pytest.Config, option: str) -> Path | None:
    """Tests may change the working directory; options are relative to where pytest was called."""
    given = config.getoption(option)
    return config.invocation_params.dir / given if given else None


# ── fixtures ────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture(scope="session")
def a2a_agent_url(pytestconfig: pytest.Config) -> str:
    """The agent's URL: `--a2a-agent`, else `a2a_agent` in pytest's configuration. Override it to start an agent."""
    url: str = pytestconfig.getoption("a2a_agent") or pytestconfig.getini("a2a_agent")
    if not url:
        pytest.fail(
            "which agent? Give --a2a-agent URL, set a2a_agent in pytest's configuration, or define a fixture "
            "a2a_agent_url that returns its URL",
            pytrace=False,
        )
    return url


@pytest.fixture(scope="session")
def a2a_proxy_settings() -> dict[str, Any]:
    """Settings of the proxy, as in the configuration file of `serve`; override it to give some."""
    return {}


@pytest.fixture
def a2a_proxy(a2a_agent_url: str, a2a_proxy_settings: dict[str, Any], _a2a_proxies: ProxyPool) -> Iterator[EvalProxy]:
    """A proxy before the agent, shared by tests; its turns are those of this test."""
    view = _acquire(_a2a_proxies, a2a_agent_url, a2a_proxy_settings)
    yield view
    _a2a_proxies.release(view)


@pytest.fixture(scope="session")
def a2a_proxy_factory(_a2a_proxies: ProxyPool) -> Callable[..., EvalProxy]:
    """`a2a_proxy_factory(agent_url, **settings)`: proxies before any agent, for fixtures of any scope.

    They run until the end of the session. Their turns are those that began after the call.
    """

    def proxy_before(agent_url: str, **settings: Any) -> EvalProxy:
        return _acquire(_a2a_proxies, agent_url, settings)

    return proxy_before


@pytest.fixture(scope="session")
def _a2a_proxies(pytestconfig: pytest.Config) -> Iterator[ProxyPool]:
    from .proxies import ProxyPool

    stash = pytestconfig.stash
    suite, folder = _path(pytestconfig, "a2a_suite"), _path(pytestconfig, "a2a_report")
    pool = ProxyPool(
        run=stash[_run], suite=suite, case_id=lambda: stash[_case], export=suite is not None or folder is not None
    )
    try:
        yield pool
    finally:
        pool.close()
        stash[_exported].extend(pool.exported)


def _acquire(pool: ProxyPool, agent_url: str, settings: dict[str, Any]) -> EvalProxy:
    from ..errors import ConfigError, ListenError

    try:
        return pool.acquire(agent_url, settings)
    except (ConfigError, ListenError) as error:
        problem = str(error)
    pytest.fail(problem, pytrace=False)  # not within the handler: what caused it would be shown at length


# ── tests and their cases ───────────────────────────────────────────────────────────────────────────────────


@pytest.hookimpl(tryfirst=True)  # before fixtures, which may send messages
def pytest_runtest_setup(item: pytest.Item) -> None:
    stash, marker = item.config.stash, item.get_closest_marker(MARKER)
    stash[_case] = None
    if marker is None:
        return
    if len(marker.args) != 1 or not isinstance(marker.args[0], str) or marker.kwargs:
        pytest.fail(f"{MARKER} takes the id of a case, as in @pytest.mark.{MARKER}('status')", pytrace=False)
    stash[_case] = case_id = marker.args[0]
    suite = stash[_suite]
    if suite is not None and suite.case(case_id) is None:
        from tool_call_evaluators.options import did_you_mean

        close = did_you_mean(case_id, [case.id for case in suite.cases])
        pytest.fail(f"the suite {suite.name} has no case {case_id!r}{close}", pytrace=False)


# ── the end of the session ──────────────────────────────────────────────────────────────────────────────────


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """With pytest-xdist: a worker begins, and its turns belong to the run of all."""
    node.workerinput[_RUN] = node.config.stash[_run]


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """With pytest-xdist: a worker has ended and hands over its turns."""
    stash = node.config.stash
    output = getattr(node, "workeroutput", None)
    if output is None:
        stash[_lost_workers].append(node.gateway.id)
    else:
        stash[_exported].extend(json.loads(output.get(_TURNS, "[]")))


@pytest.hookimpl(trylast=True)  # after the fixtures of a session that was cut short (-x, Ctrl-C) are torn down
def pytest_sessionfinish(session: pytest.Session) -> None:
    config = session.config
    if (output := getattr(config, "workeroutput", None)) is not None:
        output[_TURNS] = json.dumps(config.stash[_exported])  # some data is JSON's, but not execnet's
        return
    suite, folder = config.stash[_suite], _path(config, "a2a_report")
    if (suite is None and folder is None) or config.option.collectonly:
        return
    from .proxies import finish_session

    config.stash[_result] = result = finish_session(config.stash[_run], config.stash[_exported], suite, folder)
    if result.failed and session.exitstatus == pytest.ExitCode.OK:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    result = config.stash.get(_result, None)
    if result is None:
        return
    terminalreporter.section("a2a-eval-proxy", red=result.failed, green=not result.failed)
    for worker in config.stash[_lost_workers]:
        terminalreporter.write_line(f"worker {worker} crashed; the turns of its tests are lost")
    for line in result.lines:
        terminalreporter.write_line(line)
    reports = [
        pytest.TestReport(_NODE, ("", None, _NODE), {}, "failed", reason, "teardown") for reason in result.reasons
    ]
    terminalreporter.stats.setdefault("error", []).extend(reports)  # so that the last lines are not those of success
