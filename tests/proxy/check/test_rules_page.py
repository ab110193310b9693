"""The page with the texts of the rules, which reports show."""

from __future__ import annotations

from pathlib import Path

from a2a_eval_proxy.check import rules as base
from a2a_eval_proxy.check.card_rules import CARD_RULES
from a2a_eval_proxy.check.rules import _texts
from a2a_eval_proxy.check.traffic_rules import TRAFFIC_RULES
from a2a_tool_capture import METADATA_KEY, URI


def test_the_page_has_each_rule_and_no_other() -> None:
    rules = (*CARD_RULES, *TRAFFIC_RULES)
    assert list(_texts()) == [rule.id for rule in rules]
    assert [rule.id for rule in rules if not (rule.title and rule.why.endswith(".") and rule.fix.endswith("."))] == []


def test_the_page_names_the_uri_and_the_key_as_they_are() -> None:
    page = Path(base.__file__).with_name("rules.md").read_text("utf-8")
    assert f'"{URI}"' in page
    assert repr(METADATA_KEY) in page
