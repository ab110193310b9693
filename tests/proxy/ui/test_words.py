"""The pages use the words of the documentation and of the report."""

from __future__ import annotations

import re
from pathlib import Path

from a2a_eval_proxy.ui.asset_files import AssetFiles
from a2a_eval_proxy.ui.environment import SOURCES
from a2a_eval_proxy.ui.finding_meanings import MEANINGS
from a2a_eval_proxy.ui.turn_page import CHANGES
from tool_call_evaluators.report.html import asset

ROOT = Path(__file__).parents[3]
MAX_BYTES = 60_000
"""Of styles and scripts together, as they are served."""


def test_findings_have_the_meanings_of_the_documentation() -> None:
    text = (ROOT / "proxy/docs/findings.md").read_text("utf-8").replace("`", "")
    lines = re.sub(r"\[(.+?)\]\(.+?\)", r"\1", text).splitlines()  # links become their text
    rows = [row for line in lines if (row := re.fullmatch(r"\| ([a-z_, ]+) \| (.+) \|", line)) and row[1] != "code"]
    assert {code: row[2] for row in rows for code in row[1].split(", ")} == MEANINGS


def test_comparisons_and_sources_have_the_words_of_the_report() -> None:
    script = asset("calls.js")
    for kind, (sign, words) in CHANGES.items():
        assert kind == "awaited" or f'{kind}: ["{sign}", "{words}"]' in script
    assert all(f'{source}: "{words}"' in script for source, words in SOURCES.items())


def test_styles_and_scripts_are_small() -> None:
    served = AssetFiles().by_name
    assert sum(len(file.content) for name, file in served.items() if not name.endswith(".svg")) < MAX_BYTES
