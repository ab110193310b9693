"""The documentation's page with the texts of the rules. `python tests/proxy/check/test_rules_page.py` writes it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from a2a_eval_proxy.features.check import rules as base
from a2a_eval_proxy.features.check.rules import CARD_RULES, TRAFFIC_RULES, Rule
from a2a_tool_capture import METADATA_KEY, URI

PAGE = Path(base.__file__).with_name("rules.md")
HEAD = """# Rules of check

What each rule of [`a2a-eval-proxy check`](../../../../extension/docs/check.md) requires, why, and what to do about an
agent that breaks it. Reports have the same texts. A `warning` marks what readers repair, or advice beyond the
extension's page; it does not fail the check.
"""


def page() -> str:
    tables = (("Agent card", CARD_RULES), ("Traffic", TRAFFIC_RULES))
    return HEAD + "".join(f"\n## {heading}\n\n{table(rules)}" for heading, rules in tables)


def table(rules: Sequence[Rule]) -> str:
    rows = [
        "| rule | severity | requirement | why | repair |",
        "| --- | --- | --- | --- | --- |",
        *(f"| `{rule.id}` | {rule.severity.value} | {rule.title} | {rule.why} | {rule.fix} |" for rule in rules),
    ]
    return "".join(f"{row}\n" for row in rows)


def test_the_page_has_the_texts_of_the_rules() -> None:
    assert PAGE.read_text("utf-8") == page()


def test_the_texts_name_the_uri_and_the_key_as_they_are() -> None:
    assert f'"{URI}"' in page()
    assert repr(METADATA_KEY) in page()


if __name__ == "__main__":
    PAGE.write_text(page(), "utf-8")
