"""Each part of the benchmark once, as small as it goes: counts and figures that are there, nothing about time."""

from __future__ import annotations

import os
import re
import shlex
from dataclasses import replace
from pathlib import Path

import pytest
from support.postgres_server import PostgresServer
from tools.bench.__main__ import PARTS, main
from tools.bench.part import Plan, Setting, UnavailableTargetError
from tools.bench.programs import compile_c
from tools.bench.workers import turns_per_s

pytestmark = [
    pytest.mark.installs,
    pytest.mark.slow,
    pytest.mark.about("tests/tools/bench", "proxy/docs/performance.md"),
]

PAGE = Path(__file__).parents[3] / "proxy/docs/performance.md"
ALL_CPUS = os.sched_getaffinity(0)
TINY = Plan(
    rounds=1, unary_s=0.01, events=2, held_streams=2, held_s=0.4, warm_up_requests=2, traces=2, flood_mb=1, turns=2
)  # fmt: skip


@pytest.fixture(scope="module")
def setting(tmp_path_factory: pytest.TempPathFactory) -> Setting:
    folder = tmp_path_factory.mktemp("bench")
    try:
        compile_c("load", folder)
    except UnavailableTargetError as error:
        pytest.skip(str(error))
    return Setting(TINY, folder, ALL_CPUS, ALL_CPUS, progress=lambda message: None)


def test_the_commands_of_the_page_measure(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    measured: list[str] = []
    monkeypatch.setattr("tools.bench.__main__.measure", lambda name, setting: measured.append(name))
    for arguments in re.findall(r'^\$ make bench ARGS="(.+)"$', PAGE.read_text("utf-8"), re.MULTILINE):
        assert main([*shlex.split(arguments), "--json", str(tmp_path / "bench.json")]) == 0
    assert measured == ["stages", "stages"]


@pytest.mark.parametrize(
    ("part", "only"), [("traces", None), ("traffic", ["direct", "naive"]), ("stages", ["forwarding", "filter"])]
)
def test_a_part_has_a_figure_for_every_metric(part: str, only: list[str] | None, setting: Setting) -> None:
    measured = PARTS[part][2](replace(setting, only=only))

    missing = {key for key, found in measured.figures().items() if not found}
    assert missing <= {"kb_per_stream"}, "streams that are this short are not always open at once"
    assert [*measured.targets] == (only or ["proxy"])


def test_workers_score_what_they_are_measured_by(postgres: PostgresServer, tmp_path: Path) -> None:
    assert turns_per_s(postgres, tmp_path, "workers_awaited", workers=1, turns=2) > 0
