"""The pages use the words of the documentation and of the report."""

from __future__ import annotations

import re
from pathlib import Path

from a2a_eval_proxy.features.pages.call_rows import CHANGES
from a2a_eval_proxy.features.pages.rendering import MEANINGS, SOURCES
from tool_call_evaluators.report.html import asset

ROOT = Path(__file__).parents[3]
"""Of styles and scripts together, as they are served."""


def test_findings_have_the_meanings_of_the_documentation() -> None:
    assert MEANINGS["id_conflict"] == "chunks or ids that contradict each other"
    assert "notified past the proxy, because" in MEANINGS["push_not_relayed"]
    page = (ROOT / "proxy/a2a_eval_proxy/features/pages/findings.md").read_text("utf-8")
    rows = [line.split(" | ")[0] for line in page.splitlines() if line.startswith("| `")]
    assert list(MEANINGS) == [code for row in rows for code in re.findall("`([a-z_]+)`", row)]


def test_comparisons_and_sources_have_the_words_of_the_report() -> None:
    script = asset("calls.js")
    for kind, (sign, words) in CHANGES.items():
        assert kind == "awaited" or f'{kind}: ["{sign}", "{words}"]' in script
    assert all(f'{source}: "{words}"' in script for source, words in SOURCES.items())
