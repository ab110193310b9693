"""What is shown of bodies and events on the wire: nothing that a rule finds, and no piece of such a text."""

from __future__ import annotations

import json
from typing import Any

import pytest
from a2a_eval_proxy.admin.wire_api import shown_body, shown_event
from a2a_eval_proxy.privacy.policy import NO_PRIVACY, privacy_of
from a2a_eval_proxy.privacy.redactor import detector_rule
from hypothesis import given
from hypothesis import strategies as st

SECRET = "ann.lee@example.com"
RULES = privacy_of((detector_rule("email"),), None)


def content(text: str, **more: Any) -> dict[str, Any]:
    return {"bytes": len(text.encode()), "text": text, **more}


def event(data: Any) -> dict[str, Any]:
    return content(f"id: 1\r\ndata: {json.dumps(data)}\r\n\r\n")


def test_without_rules_the_text_is_as_it_was() -> None:
    text = ' {"parts" : [{"text": "ann.lee@example.com"}]} '
    assert shown_body(NO_PRIVACY, content(text)) == content(text)
    assert shown_event(NO_PRIVACY, content(f"data:{text}\n\n")) == content(f"data:{text}\n\n")
    assert shown_event(NO_PRIVACY, content(": ping\n\n")) == content(": ping\n\n")
    binary = {"bytes": 1, "base64": "/w=="}
    assert (shown_body(NO_PRIVACY, binary), shown_event(NO_PRIVACY, binary)) == (binary, binary)


def test_credentials_are_masked_without_rules_too() -> None:
    data = {"authentication": {"credentials": "s3cret-value"}, "note": "Authorization: Bearer abcdefghijklmnop"}
    for shown in (shown_body(NO_PRIVACY, content(json.dumps(data))), shown_event(NO_PRIVACY, event(data))):
        assert "s3cret" not in shown["text"]
        assert "abcdefghijklmnop" not in shown["text"]


@pytest.mark.parametrize("one", [{"bytes": 1, "base64": "/w=="}, content(f'{{"a": "{SECRET}', cut=True)])
def test_what_rules_cannot_be_applied_to_is_withheld(one: dict[str, Any]) -> None:
    shown = shown_body(RULES, one)
    assert not {"text", "base64"} & set(shown)
    assert shown["withheld"].startswith("rules cannot be applied")


def test_what_is_no_json_is_not_shown_with_rules() -> None:
    assert shown_body(RULES, content(f"hello {SECRET}"))["text"] == "[not shown: 25 characters that are not JSON]"
    assert SECRET not in shown_event(RULES, content(f": {SECRET}\n\n"))["text"]


def test_whole_texts_of_bodies_are_redacted_and_files_are_not_shown() -> None:
    body = {"message": {"parts": [{"text": f"I am {SECRET}"}, {"raw": "YW5u"}, {"file": {"bytes": "YW5u"}}]}}
    shown = json.loads(shown_body(RULES, content(json.dumps(body)))["text"])
    assert shown["message"]["parts"] == [
        {"text": "I am [email]"},
        {"raw": "[not shown: 4 characters]"},
        {"file": {"bytes": "[not shown: 4 characters]"}},
    ]


nested = st.recursive(
    st.just(None), lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3)
)


@given(st.integers(1, len(SECRET) - 1), nested)
def test_a_secret_in_two_events_is_in_neither(at: int, around: Any) -> None:
    for piece in (SECRET[:at], SECRET[at:]):
        part = {"kind": "text", "text": f"{piece} "}
        shown = shown_event(RULES, event({"around": around, "artifact": {"parts": [part]}}))
        assert f"[not shown: {len(piece) + 1} characters]" in shown["text"]
        assert shown["text"].startswith("id: 1\r\ndata: ")


@given(nested)
def test_a_whole_secret_anywhere_in_an_event_is_redacted(around: Any) -> None:
    shown = shown_event(RULES, event({"around": around, "metadata": {"by": [SECRET], SECRET: 1}}))
    assert SECRET not in shown["text"]
    assert "[email]" in shown["text"]
