"""The pytest plugin: real test files before a real a2a-sdk agent, talked to with the real a2a-sdk client."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from agents.scenario_agent import AgentOptions, scenario_agent
from support.prefork import PYTEST, run

pytest_plugins = ["pytester"]

ROOT = Path(__file__).parents[3]
TALK = """
import asyncio

import pytest
from a2a.client import create_client
from a2a.helpers import new_text_message
from a2a.types import Role, SendMessageRequest
from a2a_eval_proxy.testing import assert_tool_calls


async def say(url, text):
    async with await create_client(url) as client:
        message = new_text_message(text, role=Role.ROLE_USER)
        async for _ in client.send_message(SendMessageRequest(message=message)):
            pass


CALLS = [{"name": "search", "arguments": {"q": "weather Berlin"}}, {"name": "convert", "arguments": {"c": 21}}]
"""
SUITE = """
suite: weather
evaluators: [tool_trajectory, {tool_call_count: {scope: conversation}}]
cases:
  - id: ask
    expect: {tool_calls_count: {search: ["=", 1]}}
    turns:
      - user: chunks please
        expect: {tool_calls: [{name: search, arguments: {q: weather Berlin}}, {name: convert, arguments: {c: 21}}]}
  - id: refuse
    turns: [{user: message me, expect: {tool_calls: []}}]
"""


@pytest.fixture(scope="module")
def agent() -> Iterator[str]:
    with scenario_agent() as agent:
        yield agent.url


PLUGINS = ("-p", "a2a_eval_proxy.testing.pytest_plugin", "-p", "pytest_asyncio.plugin")


class Session:
    """Runs pytest on files in a folder of its own, in a process of its own, with nothing but the plugin loaded."""

    def __init__(self, pytester: pytest.Pytester, temporary: Path) -> None:
        self.folder = pytester.path
        self.temporary = temporary
        pytester.makeini(
            "[pytest]\nasyncio_mode = auto\nasyncio_default_fixture_loop_scope = function\nfilterwarnings = error\n"
        )

    def write(self, **files: str) -> None:
        for name, text in files.items():
            Path(self.folder, f"{name}.py").write_text(TALK + text, "utf-8")
        Path(self.folder, "suite.yaml").write_text(SUITE, "utf-8")

    def run(self, *arguments: str) -> pytest.RunResult:
        done = run(*PLUGINS, *arguments, cwd=self.folder, program=PYTEST)
        return pytest.RunResult(done.returncode, done.stdout.splitlines(), done.stderr.splitlines(), 0)


@pytest.fixture
def session(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> Session:
    temporary = tmp_path_factory.mktemp("temporary")
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    monkeypatch.setenv("TMPDIR", str(temporary))
    monkeypatch.delenv("GITHUB_STEP_SUMMARY", raising=False)
    monkeypatch.delenv("PYTEST_ADDOPTS", raising=False)
    return Session(pytester, temporary)


# ── fixtures ────────────────────────────────────────────────────────────────────────────────────────────────


def test_each_test_sees_its_own_turns(session: Session, agent: str) -> None:
    session.write(test_agent='''
async def test_async(a2a_proxy):
    await say(a2a_proxy.url, "chunks please")
    turn, = a2a_proxy.turns()
    assert_tool_calls(turn, CALLS)
    assert (turn["status"], turn["user_text"], turn["case_id"]) == ("done", "chunks please", None)
    await say(a2a_proxy.url, "message me")
    assert [turn["response_text"] for turn in a2a_proxy.turns()] == [turn["response_text"], "echo: message me"]


def test_sync(a2a_proxy):
    assert a2a_proxy.turns() == []
    a2a_proxy.flush()
    asyncio.run(say(a2a_proxy.url, "artifact please"))
    assert_tool_calls(a2a_proxy.turns(), CALLS)


@pytest.fixture(scope="module")
def conversation(a2a_proxy_factory, a2a_agent_url):
    proxy = a2a_proxy_factory(a2a_agent_url)
    asyncio.run(say(proxy.url, "multi"))
    return proxy


def test_a_fixture_of_a_wider_scope(conversation, a2a_proxy):
    assert conversation.url == a2a_proxy.url
    assert a2a_proxy.url in repr(a2a_proxy) and a2a_proxy.agent_url in repr(a2a_proxy)
    assert [turn["user_text"] for turn in conversation.turns()] == ["multi"]
    assert a2a_proxy.turns() == []
''')  # fmt: skip
    session.run("--a2a-agent", agent).assert_outcomes(passed=3)
    assert not list(session.temporary.iterdir())
    written = {path.name for path in session.folder.iterdir() if not path.name.startswith(("runpytest", "std"))}
    assert written <= {"test_agent.py", "suite.yaml", "tox.ini", ".pytest_cache", "__pycache__"}


def test_agents_of_the_users_own_fixtures(session: Session, agent: str) -> None:
    with scenario_agent(AgentOptions(declared=False)) as other:
        session.write(test_agents=f'''
@pytest.fixture
async def a2a_agent_url():
    return "{agent}"


@pytest.fixture(scope="session")
def a2a_proxy_settings():
    return {{"otlp": "127.0.0.1:0"}}


async def test_two_agents(a2a_proxy, a2a_proxy_factory):
    other = a2a_proxy_factory("{other.url}", negotiate="always")
    assert a2a_proxy.otlp_url and other.otlp_url is None
    for proxy in (a2a_proxy, other):
        await say(proxy.url, "chunks please")
        assert_tool_calls(proxy.turns(), CALLS)


async def test_an_agent_that_does_not_declare_the_extension(a2a_proxy_factory):
    proxy = a2a_proxy_factory("{other.url}")
    await say(proxy.url, "chunks please")
    with pytest.raises(AssertionError, match="does not declare the tool-call-capture extension"):
        assert_tool_calls(proxy.turns(), CALLS)
''')  # fmt: skip
        session.run().assert_outcomes(passed=2)


BEFORE = "def test_it(a2a_proxy_factory): a2a_proxy_factory("


@pytest.mark.parametrize(
    ("arguments", "test", "message"),
    [
        ((), "def test_it(a2a_proxy): pass", "which agent? Give --a2a-agent URL, set a2a_agent in*"),
        (("--a2a-agent", "agent"), "def test_it(a2a_proxy): pass", "*upstream: expected a URL such as*"),
        ((), f"{BEFORE}'http://a', store='x.db')", "*no setting 'store'; accepted*"),
        ((), f"{BEFORE}'http://a', negotiate='x')", "*expected one of declared, *"),
        ((), "@pytest.mark.a2a_case\ndef test_it(): pass", "a2a_case takes the id of a case, as in *"),
        (
            ("--a2a-suite", "suite.yaml"),
            "@pytest.mark.a2a_case('aks')\ndef test_it(): pass",
            "the suite weather has no case 'aks' (did you mean ask?)",
        ),
    ],
)
def test_mistakes_are_one_clear_sentence(session: Session, arguments: tuple[str, ...], test: str, message: str) -> None:
    session.write(test_agent=test)
    result = session.run(*arguments)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines([message])
    assert "proxies.py" not in result.stdout.str()


# ── cases, gates, report ────────────────────────────────────────────────────────────────────────────────────

BOTH_CASES = """
@pytest.mark.a2a_case("ask")
async def test_ask(a2a_proxy):
    await say(a2a_proxy.url, "chunks in other words than the suite's")


async def test_refuse(a2a_proxy):
    await say(a2a_proxy.url, "message me")
"""


def test_a_suite_that_passes(session: Session, agent: str) -> None:
    session.write(test_agent=BOTH_CASES)
    result = session.run("--a2a-agent", agent, "--a2a-suite", "suite.yaml", "--a2a-report", "out")
    assert result.ret == pytest.ExitCode.OK
    result.stdout.fnmatch_lines([
        "*= a2a-eval-proxy =*",
        "suite weather: 2 of 2 conversations passed (2 turns, 2 tool calls)",
        "gates passed",
        f"report: {session.folder}/out/report.html",
    ])  # fmt: skip
    assert {"report.html", "report.json", "junit.xml", "summary.md"} <= {
        path.name for path in Path(session.folder, "out").iterdir()
    }


def test_a_gate_that_fails_fails_the_session(session: Session, agent: str) -> None:
    session.write(test_agent='''
@pytest.mark.a2a_case("ask")
async def test_ask(a2a_proxy):
    await say(a2a_proxy.url, "message instead of calls")


async def test_more(a2a_proxy):
    await say(a2a_proxy.url, "message and no case")
''')  # fmt: skip
    result = session.run("--a2a-agent", agent, "--a2a-suite", "suite.yaml")
    result.assert_outcomes(passed=2, errors=4)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines([
        "gates failed, 4 reasons:",
        "  refuse: not executed (no matching turn)",
        "  ask: tool_trajectory failed: *",
        "*= short test summary info =*",
        "ERROR a2a-eval-proxy - refuse: not executed (no matching turn)",
        "ERROR a2a-eval-proxy - ask: tool_trajectory failed: *",
        "*2 passed, 4 errors*",
    ])  # fmt: skip


def test_a_session_that_stops_early_reports_what_there_was(session: Session, agent: str) -> None:
    session.write(test_agent=BOTH_CASES + "    assert False\n\n\ndef test_never(a2a_proxy): pass\n")
    result = session.run("--a2a-agent", agent, "--a2a-suite", "suite.yaml", "-x")
    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(["suite weather: 2 of 2 conversations passed (2 turns, 2 tool calls)", "gates passed"])
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    assert not list(session.temporary.iterdir())


def test_a_suite_without_any_traffic_does_not_pass(session: Session) -> None:
    session.write(test_nothing="def test_it(): pass")
    result = session.run("--a2a-suite", "suite.yaml")
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(["  ask: not executed (no matching turn)", "  refuse: not executed (no matching turn)"])
    assert session.run("--a2a-suite", "suite.yaml", "--collect-only").ret == pytest.ExitCode.OK


def test_bad_options_end_the_session_at_once(session: Session) -> None:
    session.write(test_nothing="def test_it(): pass")
    Path(session.folder, "bad.yaml").write_text("suite: x\nevaluators: [nonsense]\n", "utf-8")
    for arguments, message in (
        (("--a2a-suite", "bad.yaml"), "ERROR: --a2a-suite: *bad.yaml*2*nonsense*"),
        (("--a2a-suite", "none.yaml"), "ERROR: --a2a-suite: *none.yaml*"),
        (("--a2a-report", "bad.yaml"), "ERROR: --a2a-report: *bad.yaml is a file; give a directory*"),
    ):
        result = session.run(*arguments)
        assert result.ret == pytest.ExitCode.USAGE_ERROR
        result.stderr.fnmatch_lines([message])


# ── pytest-xdist ────────────────────────────────────────────────────────────────────────────────────────────


def test_the_turns_of_all_workers_are_in_one_report(session: Session, agent: str) -> None:
    session.write(test_one=BOTH_CASES, test_two='''
async def test_more(a2a_proxy):
    await say(a2a_proxy.url, "multi please")
    assert len(a2a_proxy.turns()) == 1
''')  # fmt: skip
    options = ("--a2a-agent", agent, "--a2a-suite", "suite.yaml", "--a2a-report", "out")
    result = session.run("-p", "xdist", "-n", "2", "--dist", "each", *options)
    assert result.ret == pytest.ExitCode.OK
    result.stdout.fnmatch_lines(["suite weather: 4 of 6 conversations passed (6 turns, *"])
    assert "gates passed" in result.stdout.str()


def test_a_worker_that_crashes_is_named(session: Session, agent: str) -> None:
    session.write(test_agent=BOTH_CASES + '''
def test_crash():
    import os
    os._exit(1)
''')  # fmt: skip
    result = session.run(
        "-p", "xdist", "-n", "1", "--max-worker-restart", "0", "--a2a-agent", agent, "--a2a-suite", "suite.yaml"
    )
    assert result.ret != pytest.ExitCode.OK
    result.stdout.fnmatch_lines(
        ["worker gw0 crashed; the turns of its tests are lost", "  ask: not executed (no matching turn)"]
    )


# ── what it costs those who do not use it ───────────────────────────────────────────────────────────────────


def test_importing_the_plugin_costs_nothing_but_itself() -> None:
    script = (
        "import sys, pytest; before = set(sys.modules); import a2a_eval_proxy.testing.pytest_plugin;"
        "print(*sorted(set(sys.modules) - before))"
    )
    result = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert {name for name in result.stdout.split() if name.partition(".")[0] not in sys.stdlib_module_names} == {
        "a2a_eval_proxy", "a2a_eval_proxy.testing", "a2a_eval_proxy.testing.pytest_plugin"
    }  # fmt: skip
