"""The pages use the words of the documentation and of the report."""

from __future__ import annotations

from a2a_eval_proxy.features.pages.call_rows import CHANGES
from a2a_eval_proxy.features.pages.rendering import SOURCES
from tool_call_evaluators.report.html import asset


def test_comparisons_and_sources_have_the_words_of_the_report() -> None:
    script = asset("calls.js")
    for kind, (sign, words) in CHANGES.items():
        assert kind == "awaited" or f'{kind}: ["{sign}", "{words}"]' in script
    assert all(f'{source}: "{words}"' in script for source, words in SOURCES.items())
