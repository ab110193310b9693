"""The programs of the benchmark against each other: counts only, nothing about time.

They share a folder and all CPUs, and proxies are forked: a benchmark compiles and starts its own, on CPUs of their own.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import islice
from pathlib import Path
from typing import IO

import pytest
from bench import targets
from bench.__main__ import main
from bench.grpc_calls import grpc_part
from bench.hostility import hostile
from bench.otlp import bodies, post_all, trace_ids
from bench.pages import PAGES
from bench.part import BehaviourError, Plan, Setting
from bench.profile import REQUIREMENTS, ProfilePart, counted_calls
from bench.programs import CompilerMissingError, LoadError, LoadGenerator, compile_c, running_agent
from bench.report import DIRECT, figures
from bench.revision import ROOT
from bench.stages import stages
from bench.targets import FLOOR, STAGES, TRAFFIC_TARGETS, Running, Target
from bench.traces import TRACES
from bench.traffic import check
from bench.watching import UNWATCHED, WATCHED, watching_part
from bench.workers import AWAITED, suite_file, turns_per_s
from support.chromium import require_chromium
from support.postgres_server import PostgresServer
from support.prefork import Forked
from support.provision import provided_python

pytestmark = [pytest.mark.installs, pytest.mark.slow]


ALL_CPUS = os.sched_getaffinity(0)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of the compiled programs, and of what the parts write."""
    return tmp_path_factory.mktemp("bench")


@pytest.fixture(scope="module")
def load(folder: Path) -> LoadGenerator:
    try:
        return LoadGenerator(compile_c("load", folder), ALL_CPUS)
    except CompilerMissingError as error:
        pytest.skip(str(error))


@pytest.fixture(scope="module")
def agent_port(folder: Path) -> Iterator[int]:
    try:
        program = compile_c("upstream", folder)
    except CompilerMissingError as error:
        pytest.skip(str(error))
    with running_agent(program, ALL_CPUS) as port:
        yield port


@pytest.fixture
def forked(monkeypatch: pytest.MonkeyPatch) -> None:
    """Proxies of this tree are forked from a process with their imports: each start takes a second less."""
    start = targets.start

    def start_or_fork(launch: targets.Launch, output: IO[bytes], cpus: set[int]) -> subprocess.Popen[bytes] | Forked:
        script, *arguments = launch.command[1:]
        if Path(script).name != "stage.py" or "PYTHONPATH" in launch.environment:
            return start(launch, output, cpus)
        with Path(os.devnull).open() as nothing:
            files = [nothing.fileno(), output.fileno(), output.fileno()]
            return Forked(arguments, Path.cwd(), os.environ | launch.environment, files, Path(script))

    monkeypatch.setattr(targets, "start", start_or_fork)


def setting(folder: Path, plan: Plan) -> Setting:
    return Setting(plan, folder, ALL_CPUS, ALL_CPUS, progress=lambda message: None)


def test_unary_sends_as_many_requests_as_told(load: LoadGenerator, agent_port: int) -> None:
    result = load.unary(agent_port, connections=16, seconds=10, requests=500)

    assert (result["requests"], result["failed"], result["with_tool_calls"]) == (500, 0, 0)


def test_unary_ends_by_time_without_losing_an_answer(load: LoadGenerator, agent_port: int) -> None:
    result = load.unary(agent_port, connections=4, seconds=0.1)

    assert result["requests"] > 0
    assert (result["failed"], result["reconnects"]) == (0, 0)


def test_tool_calls_come_only_when_asked_for(load: LoadGenerator, agent_port: int) -> None:
    asked = load.unary(agent_port, connections=2, seconds=10, requests=20, ask=True)
    streamed = load.streams(agent_port, streams=5, events=3, interval_ms=5, ask=True)

    assert (asked["with_tool_calls"], streamed["with_tool_calls"]) == (20, 5)


def test_streams_are_complete_and_all_open_at_once(load: LoadGenerator, agent_port: int) -> None:
    opened: list[int] = []

    # The pace is slow enough for the first stream to be still open when the last one is.
    result = load.streams(agent_port, streams=20, events=4, interval_ms=200, when_open=opened.append)

    assert opened == [20]
    assert (result["streams"], result["complete"], result["events"]) == (20, 20, 80)


def test_tasks_have_ids_of_their_own(agent_port: int) -> None:
    body = {"jsonrpc": "2.0", "id": 7, "method": "SendMessage", "params": {}}
    answers = []
    for _ in range(3):
        with urllib.request.urlopen(f"http://127.0.0.1:{agent_port}/", data=json.dumps(body).encode()) as answer:
            answers.append(json.load(answer))

    assert {answer["id"] for answer in answers} == {7}
    assert len({answer["result"]["task"]["id"] for answer in answers}) == 3


def test_card_declares_the_extension(agent_port: int) -> None:
    with urllib.request.urlopen(f"http://127.0.0.1:{agent_port}/.well-known/agent-card.json") as answer:
        card = json.load(answer)

    assert card["supportedInterfaces"][0]["url"] == f"http://127.0.0.1:{agent_port}/"
    assert card["capabilities"]["extensions"][0]["uri"] == "https://arksim.arklex.ai/a2a/tool-call-capture/v1"


@pytest.mark.parametrize("name", [DIRECT, "floor", "naive"])
def test_targets_do_their_part(name: str, load: LoadGenerator, agent_port: int, tmp_path: Path) -> None:
    target = next(target for target in TRAFFIC_TARGETS if target.name == name)
    with target.started(agent_port, tmp_path, ALL_CPUS) as process:
        check(target, process, load)

        assert (process.cpu_seconds() is None) == (name == DIRECT)
        assert (process.rss_bytes() is None) == (name == DIRECT)


@pytest.mark.usefixtures("load", "forked")  # the first skips without a compiler
def test_traces_have_a_figure_for_every_metric(folder: Path) -> None:
    plan = Plan(rounds=1, traces=20, flood_mb=1, turns=5)
    measured = TRACES.measure(setting(folder, plan))

    found = figures(measured.rounds, TRACES.metrics)
    assert [metric.key for metric in TRACES.metrics if "proxy" not in found[metric.key]] == []
    assert all(value > 0 for of_target in found.values() for value in of_target.values())


TINY = Plan(
    rounds=1,
    stage_s=0.05,
    stage_events=3,
    warm_up_requests=20,
    profile_s=1.0,
    stored=20,
    hour_turns=100,
    shown_streams=1,
    unread_clients=2,
    unread_s=0.2,
    hostile_s=0.1,
)


@pytest.mark.usefixtures("load", "forked")
def test_stages_have_a_figure_for_every_metric(folder: Path) -> None:
    part = stages([stage.name for stage in STAGES if stage.name != "nginx"])
    measured = part.measure(setting(folder, TINY))

    assert measured.warnings == []
    own = ["forwarding", "capture", "filter", "store", "forty agents", "scoring"]
    assert measured.targets == ["direct", "floor", *own]
    found = figures(measured.rounds, part.metrics)
    assert [target for target in measured.targets if target not in found["stage_p50_ms"]] == []
    assert [key for key in found if any(target not in found[key] for target in measured.targets[1:])] == []


def test_the_floor_decodes_requests(agent_port: int, tmp_path: Path) -> None:
    with FLOOR.started(agent_port, tmp_path, ALL_CPUS) as target:
        with urllib.request.urlopen(f"http://127.0.0.1:{target.port}/", data=b'{"id": 1}') as answer:
            assert answer.status == 200
        with pytest.raises(urllib.error.HTTPError, match="500"):
            urllib.request.urlopen(f"http://127.0.0.1:{target.port}/", data=b"no JSON")


@pytest.mark.usefixtures("load")
def test_the_report_names_machine_and_plan(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    report = tmp_path / "made" / "report.json"

    assert main(["stages", "--quick", "--only", "floor", "--json", str(report)]) == 0

    printed = capsys.readouterr().out
    assert printed.startswith("|  | CPU per request, µs, 1 connection |")
    assert re.search(
        r"one round; load average at the start .*idle for \d+%, other programs took \d+%\.$", printed, re.MULTILINE
    )
    found = json.loads(report.read_text())["parts"]["stages"]
    assert found["targets"] == ["floor"]
    assert 0 <= found["cpu_shares"]["others"] <= 1


@pytest.mark.usefixtures("load")
def test_an_unknown_revision_ends_with_a_message(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["stages", "--quick", "--against", "no-such-revision"]) == 2

    assert "bench: no-such-revision is no folder and no revision" in capsys.readouterr().err


@pytest.mark.usefixtures("load", "forked")
def test_stages_of_another_tree_are_measured_and_left_out_where_they_do_not_start(folder: Path, tmp_path: Path) -> None:
    empty = tmp_path / "empty"
    (empty / "proxy" / "a2a_eval_proxy").mkdir(parents=True)
    (empty / "proxy" / "a2a_eval_proxy" / "__init__.py").touch()

    part = stages(["scoring"], str(ROOT))
    both = part.measure(setting(folder, TINY))
    assert both.targets == ["scoring", f"scoring at {ROOT}"]
    assert f"| / scoring at {ROOT} |" in part.table(both)
    measured = stages(["floor", "store"], str(empty)).measure(setting(folder, TINY))
    assert measured.targets == ["floor", "store"]
    assert re.fullmatch(r"store at .* is left out: .*No module named 'a2a_eval_proxy.cli'", *measured.warnings)


@pytest.mark.usefixtures("forked")
def test_a_stage_that_does_more_than_its_part_is_not_measured(
    load: LoadGenerator, agent_port: int, tmp_path: Path
) -> None:
    everything = next(stage for stage in STAGES if stage.name == "scoring")
    more = pytest.raises(BehaviourError, match="scoring: 6 turns stored, expected 0")
    with everything.started(agent_port, tmp_path, ALL_CPUS) as target, more:
        check(replace(everything, stores=False), target, load, [True])


@pytest.mark.usefixtures("load", "forked")
def test_a_profile_has_times_and_calls(folder: Path) -> None:
    if provided_python(REQUIREMENTS) is None:
        pytest.skip("py-spy is installed by `make bench` only")
    part = ProfilePart(["scoring"])
    profiled = part.measure(setting(folder, TINY))

    assert [profile.title for profile in profiled.profiles] == [
        "scoring, an exchange, 16 connections",
        "scoring, an event, 100 streams",
    ]
    exchange = profiled.profiles[0]
    assert exchange.threads["MainThread"] > 0
    assert any(cost.thread == "MainThread" and cost.calls >= 1 and cost.total_us > 0 for cost in exchange.costs)


@pytest.mark.usefixtures("forked")
def test_calls_of_an_exchange_are_counted_by_thread(load: LoadGenerator, agent_port: int, tmp_path: Path) -> None:
    everything = next(stage for stage in STAGES if stage.name == "scoring")
    with everything.started(agent_port, tmp_path, ALL_CPUS, tmp_path / "calls") as target:

        def requests() -> int:
            done = load.unary(target.port, connections=1, seconds=30, requests=20)["requests"]
            target.settle()
            return done

        counts = [counted_calls(tmp_path / "calls", requests) for _ in range(2)]

    for counted in counts:
        calls = {(thread, function.name): number for (thread, function), number in counted.items()}
        assert 1 <= calls["MainThread", "ClientExchange.run"] <= 4  # with each time it continues
        assert {thread for thread, _ in calls} >= {"MainThread", "store-writer"}


def test_grpc_has_figures(folder: Path) -> None:
    part = grpc_part()
    measured = part.measure(setting(folder, TINY))

    (figures_of_round,) = measured.rounds
    assert set(figures_of_round["a2a-eval-proxy"]) == {metric.key for metric in part.metrics}
    assert set(figures_of_round["direct"]) == {"grpc_p50_ms"}


@pytest.mark.usefixtures("load", "forked")
def test_pages_that_watch_have_a_figure_for_every_metric(folder: Path) -> None:
    part = watching_part([UNWATCHED, WATCHED])
    measured = part.measure(setting(folder, TINY))

    assert measured.warnings == []
    assert {len(of_target) for of_target in figures(measured.rounds, part.metrics).values()} == {2}


@pytest.mark.usefixtures("load", "forked")
def test_pages_in_a_browser_have_figures(folder: Path) -> None:
    require_chromium()
    shown = PAGES.measure(setting(folder, TINY))

    found = figures(shown.rounds, PAGES.metrics)
    assert set(found["pages_paint_ms"]) == set(shown.targets) - {"the proxy"}
    assert set(found["pages_call_p50_ms"]) == {"list", "turn"}
    assert set(found["pages_memory_mb"]) == {"list", "the proxy"}


@pytest.mark.usefixtures("load", "forked")
def test_a_hostile_agent_is_compared_with_one_that_answers(folder: Path) -> None:
    part = hostile(("resets", "small events"))
    measured = part.measure(setting(folder, TINY))

    assert measured.targets == ["resets", "small events"]
    found = figures(measured.rounds, part.metrics)
    assert [metric.key for metric in part.metrics if set(found[metric.key]) != set(measured.targets)] == []
    # Requests of the others that failed on a loaded machine are named before these.
    assert [warning.partition(":")[0] for warning in measured.warnings][-3:] == ["p50", "p99", "memory"]


def test_workers_score_what_they_are_measured_by(postgres: PostgresServer, tmp_path: Path) -> None:
    assert turns_per_s(postgres, suite_file(tmp_path, AWAITED), workers=2, turns=40) > 0


def test_load_names_the_target_it_cannot_reach(load: LoadGenerator) -> None:
    with pytest.raises(LoadError, match="connect to the target"):
        load.unary(1, connections=1, seconds=0.1)


class Refusing(BaseHTTPRequestHandler):
    """A server that answers every request with 503."""

    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(503)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        """Quiet."""


@pytest.fixture
def refusing_port() -> Iterator[int]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Refusing) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield server.server_port
        finally:
            server.shutdown()


def test_a_target_that_does_not_answer_is_not_measured(load: LoadGenerator, refusing_port: int) -> None:
    with pytest.raises(BehaviourError, match="broken: 0 answers to SendMessage"):
        check(Target("broken"), Running("broken", refusing_port), load)


def test_an_exporter_tells_that_it_was_refused(refusing_port: int) -> None:
    with pytest.raises(LoadError, match="answered 503"):
        post_all(refusing_port, bodies(8, islice(trace_ids(), 1)), patience_s=0.0)
