"""Each part of the benchmark once, as small as it goes: counts and figures that are there, nothing about time."""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from support.postgres_server import PostgresServer
from support.provision import provided_python
from tools.bench import procfs
from tools.bench.__main__ import main
from tools.bench.grpc_calls import grpc_part
from tools.bench.hostility import hostile
from tools.bench.part import BehaviourError, Part, Plan, Setting
from tools.bench.profile import NAMELESS, Cost, Function, ProfilePart, profile_of, read_calls, read_stacks
from tools.bench.programs import CompilerMissingError, LoadError, LoadGenerator, compile_c, running_agent
from tools.bench.report import Metric, Round, figures, table, table_by_target
from tools.bench.revision import ROOT
from tools.bench.scoring import MODES, RULES, SCORERS, check_scores, score, varied_turns
from tools.bench.stages import stages
from tools.bench.targets import STAGES, TRAFFIC_TARGETS, Running, Target
from tools.bench.traces import TRACES
from tools.bench.traffic import check
from tools.bench.workers import AWAITED, suite_file, turns_per_s

pytestmark = [pytest.mark.installs, pytest.mark.slow]

ALL_CPUS = os.sched_getaffinity(0)
TINY = Plan(
    rounds=1, stage_s=0.05, stage_events=3, warm_up_requests=20, traces=20, flood_mb=1, turns=5,
    unread_clients=2, unread_s=0.2, hostile_s=0.1,
)  # fmt: skip


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
def agent_port(folder: Path, load: LoadGenerator) -> Iterator[int]:
    with running_agent(compile_c("upstream", folder), ALL_CPUS) as port:
        yield port


@pytest.mark.usefixtures("load")  # it skips without a compiler
@pytest.mark.parametrize(
    "part",
    [
        TRACES,
        stages([stage.name for stage in STAGES if stage.name != "nginx"]),
        grpc_part(),
        hostile(("resets", "small events")),
    ],
    ids=lambda part: part.name,
)
def test_a_part_has_a_figure_for_every_metric(part: Part, folder: Path) -> None:
    measured = part.measure(Setting(TINY, folder, ALL_CPUS, ALL_CPUS, progress=lambda message: None))

    found = figures(measured.rounds, part.metrics)
    assert [metric.key for metric in part.metrics if not found[metric.key]] == []
    assert part.table(measured).count("\n") > 1


@pytest.mark.usefixtures("load")
def test_another_tree_is_compared_in_the_same_run(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    report = tmp_path / "made" / "report.json"

    assert main(["stages", "--quick", "--only", "scoring", "--against", str(ROOT), "--json", str(report)]) == 0

    assert f"| / scoring at {ROOT} |" in capsys.readouterr().out
    found = json.loads(report.read_text())["parts"]["stages"]
    assert found["targets"] == ["scoring", f"scoring at {ROOT}"]
    assert main(["stages", "--quick", "--against", "no-such-revision"]) == 2
    assert "bench: no-such-revision is no folder and no revision" in capsys.readouterr().err


@pytest.mark.usefixtures("load")
def test_a_profile_has_times_and_calls() -> None:
    raw = (
        "thread (7): MainThread;run (/lib/asyncio/runners.py:86);Tap.response (/app/relay/tap.py:189) 30\n"
        "thread (7): MainThread;run (/lib/asyncio/runners.py:86) 40\n"
        "thread (9): store-writer;write (/app/store.py:5);write (/app/store.py:5) 5\n"
        "thread (11) 5\n"
    )
    response = Function("/app/relay/tap.py", 189, "Tap.response")
    calls = read_calls('[["MainThread", "/app/relay/tap.py", 189, "Tap.response", 30]]', 20)
    assert calls == {("MainThread", response): 1.5}

    found = profile_of("an exchange", read_stacks(raw), calls, {7: 70.0, 9: 20.0})

    assert found.threads == {"MainThread": pytest.approx(70), "store-writer": pytest.approx(20), NAMELESS: 0.0}
    assert found.costs == [
        Cost("MainThread", "run (asyncio/runners.py)", 40.0, 70.0, 0.0),
        Cost("MainThread", "Tap.response (relay/tap.py)", 30.0, 30.0, 1.5),
        Cost("store-writer", "write (app/store.py)", 20.0, 20.0, 0.0),
    ]
    assert ProfilePart(["scoring"]).name == "profile"


@pytest.mark.parametrize("name", ["direct", "floor", "naive"])
def test_targets_do_their_part(name: str, load: LoadGenerator, agent_port: int, tmp_path: Path) -> None:
    target = next(target for target in TRAFFIC_TARGETS if target.name == name)
    with target.started(agent_port, tmp_path, ALL_CPUS) as process:
        check(target, process, load)


def test_a_target_that_does_more_or_less_is_not_measured(load: LoadGenerator, agent_port: int, tmp_path: Path) -> None:
    everything = next(stage for stage in STAGES if stage.name == "scoring")
    more = pytest.raises(BehaviourError, match="scoring: 6 turns stored, expected 0")
    with everything.started(agent_port, tmp_path, ALL_CPUS) as target, more:
        check(replace(everything, stores=False), target, load, [True])
    with pytest.raises(LoadError, match="connect to the target"):
        check(Target("gone"), Running("gone", 1), load)


def test_workers_score_what_they_are_measured_by(postgres: PostgresServer, tmp_path: Path) -> None:
    assert turns_per_s(postgres, suite_file(tmp_path, AWAITED), workers=2, turns=40) > 0


def test_peers_score_as_we_do() -> None:
    ours, *peers = SCORERS

    def scored(scorer, python):  # type: ignore[no-untyped-def]
        return score(scorer, python, varied_turns(5), [*RULES, *MODES], 0.0, procfs.split_cpus()[0])

    found = {ours.name: scored(ours, sys.executable)}
    assert found[ours.name]["arguments"]["scores"] == [1.0, 0.8, 0.8, 1.0, 1.0]
    found |= {peer.name: scored(peer, python) for peer in peers if (python := provided_python(peer.requirements))}
    check_scores(found)
    with pytest.raises(BehaviourError, match="we score"):
        check_scores(found | {"another": {"arguments": {"turns_per_s": 1.0, "scores": [0.0]}}})


ROUNDS: list[Round] = [
    {"direct": {"rate": 100.0, "p50": 1.0}, "nginx": {"rate": 50.0, "p50": 3.0}, "proxy": {"rate": 20.0, "p50": 5.0}},
    {"direct": {"rate": 100.0, "p50": 4.0}, "nginx": {"rate": 70.0, "p50": 5.0}, "proxy": {"rate": 30.0, "p50": 8.0}},
    {"direct": {"rate": 100.0, "p50": 2.0}, "nginx": {"rate": 60.0, "p50": 4.0}, "proxy": {"rate": 10.0, "p50": None}},
]


def test_tables_have_medians_differences_within_a_round_and_ratios() -> None:
    metrics = [
        Metric("rate", "Unary", "requests/s"),
        Metric("p50", "Unary", "added latency, ms", minus_direct=True),
    ]
    found = figures(ROUNDS, metrics)

    assert table(found, metrics, ["direct", "nginx", "proxy"], "proxy", ["nginx", "naive"]).splitlines() == [
        "|  | direct | nginx | proxy | proxy / nginx |",
        "| --- | ---: | ---: | ---: | ---: |",
        "| **Unary** |  |  |  |  |",
        "| requests/s | 100 | 60.0 | 20.0 | 0.33 |",
        "| added latency, ms | – | 2.00 | 4.00 | 2.00 |",
    ]
    assert re.search(r"\| proxy \| 20.0 \| 0.33 \|", table_by_target(found, metrics, ["nginx", "proxy"], ["nginx"]))
