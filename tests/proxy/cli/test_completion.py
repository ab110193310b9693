"""Names that a shell completes: cases and tags of the suite on the line, runs of the store."""

from __future__ import annotations

from pathlib import Path

import pytest
from a2a_eval_proxy.cli import cli
from click.testing import CliRunner
from support.stored_runs import store_turns
from support.turn_samples import turn

SUITE = """\
suite: shop
plugins: [raises.py]
cases:
  - {id: refund-part, tags: [money, smoke], turns: [{user: Hello}]}
  - {id: 2026-01-31, tags: [money], turns: [{user: Hello}]}
"""


def completed(line: str, word: str = "") -> list[str]:
    variables = {"_PROXY_COMPLETE": "bash_complete", "COMP_WORDS": f"proxy {line} {word}"}
    variables["COMP_CWORD"] = str(len(line.split()) + 1)
    result = CliRunner().invoke(cli, prog_name="proxy", complete_var="_PROXY_COMPLETE", env=variables)
    assert result.exception is None or isinstance(result.exception, SystemExit)
    return [offer.partition(",")[2] for offer in result.output.splitlines() if offer]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "suite.yaml").write_text(SUITE)
    (tmp_path / "other.yaml").write_text("suite: other\ncases: [{id: other, turns: [{user: Hello}]}]\n")
    (tmp_path / "raises.py").write_text("raise SystemExit('completion ran a plug-in')")
    store_turns(tmp_path / "a2a-eval-proxy.db", [turn("t-1", run="monday"), turn("t-2", run="tuesday", start=9.0)])
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    ("line", "word", "expected"),
    [
        ("run suite.yaml --case", "", ["refund-part", "2026-01-31"]),
        ("run suite.yaml --case", "ref", ["refund-part"]),
        ("evaluate --suite suite.yaml --case", "2", ["2026-01-31"]),
        ("run suite.yaml --tag", "", ["money", "smoke"]),
        ("run --case", "", []),
        ("run absent.yaml --case", "", []),
        ("run raises.py --case", "", []),
        ("run . --tag", "", ["money", "smoke"]),
        ("run other.yaml suite.yaml --tag", "m", ["money"]),
        ("run suite.yaml --run", "", ["tuesday", "monday"]),
        ("evaluate --run", "m", ["monday"]),
        ("compare monday", "t", ["tuesday"]),
        ("show", "tu", ["tuesday"]),
        ("show --store absent.db", "tu", []),
    ],
)
def test_a_shell_completes_names(folder: Path, line: str, word: str, expected: list[str]) -> None:
    assert completed(line, word) == expected
