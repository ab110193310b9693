"""What a user says in a turn: texts, parts, and answers to questions of the agent."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import pytest
from a2a_tool_capture.approvals import Answer
from tool_call_evaluators.suite import SuiteError, load_suite, parse_suite
from tool_call_evaluators.suite.messages import MAX_FILE_BYTES, UserMessage, is_kept, sent_message
from tool_call_evaluators.suite.parsing import read_kept_suite
from tool_call_evaluators.suite.writing import kept_suite, suite_text


def suite_of(user: Any) -> str:
    return f"suite: x\ncases: [{{id: a, turns: [{{user: {user}}}]}}]"


def said(user: str) -> Any:
    """The message, also after it was written and read again."""
    suite = parse_suite(suite_of(user))
    again = parse_suite(suite_text(suite)).cases[0].turns[0].user
    message = suite.cases[0].turns[0].user
    assert (again, getattr(again, "content", None)) == (message, getattr(message, "content", None))
    return message


@pytest.mark.parametrize(
    ("user", "words", "sent"),
    [
        ("{approve: true}", "approve", Answer("approve")),
        ("{approve: refund}", "approve", Answer("approve", "refund")),
        ("{reject: true}", "reject", Answer("reject")),
        ("{reject: too much}", "reject: too much", Answer("reject", "too much")),
        ("{choose: 2}", "2", Answer("choose", 2)),
        ("{choose: {size: L}}", '{"size": "L"}', Answer("choose", {"size": "L"})),
        ("{parts: [{data: {n: 1}}]}", '{"n": 1}', [{"data": {"n": 1}}]),
        (
            "{parts: [{text: Look}, {file: {name: a.txt, media_type: text/plain, bytes: aGk=}, metadata: {k: v}}]}",
            "Look",
            [{"text": "Look"}, {"filename": "a.txt", "mediaType": "text/plain", "raw": "aGk=", "metadata": {"k": "v"}}],
        ),
        ("{parts: [{file: {uri: 'http://a/b'}}]}", "file", [{"url": "http://a/b"}]),
        ("{parts: [{data: {}}]}", "{}", [{"data": {}}]),
    ],
)
def test_a_message_has_words_and_what_is_sent(user: str, words: str, sent: Any) -> None:
    message = said(user)
    assert (message, message.to_send()) == (words, sent)
    if isinstance(sent, list):
        assert sent_message(words, sent).content == message.content  # as it is recorded


def test_a_text_is_a_text_and_metadata_go_with_parts() -> None:
    assert type(said("hello")) is str
    assert UserMessage("hello").to_send() == "hello"
    assert said("{parts: [{text: hi}], metadata: {tenant: a}}").metadata == {"tenant": "a"}


def test_a_file_is_read_when_it_is_sent(tmp_path: Path) -> None:
    bill = tmp_path / "bill.pdf"
    bill.write_bytes(b"%PDF")
    (tmp_path / "s.yaml").write_text(suite_of("{parts: [{file: bill.pdf}]}"), "utf-8")
    message = load_suite(tmp_path / "s.yaml").cases[0].turns[0].user
    assert message == "bill.pdf"
    assert message.to_send() == [
        {"raw": base64.b64encode(b"%PDF").decode(), "filename": "bill.pdf", "mediaType": "application/pdf"}
    ]
    kept, _ = read_kept_suite(json.loads(json.dumps(kept_suite(load_suite(tmp_path / "s.yaml")))))
    assert kept.cases[0].turns[0].user == "bill.pdf"  # a stored suite is read wherever it is
    for name, problem in (("missing", "no such file"), ("/etc/hosts", "is outside the suite's directory")):
        (tmp_path / "bad.yaml").write_text(suite_of(f"{{parts: [{{file: {name}}}]}}"), "utf-8")
        with pytest.raises(SuiteError, match=problem):
            load_suite(tmp_path / "bad.yaml")
    with bill.open("wb") as opened:
        opened.truncate(MAX_FILE_BYTES + 1)
    with pytest.raises(SuiteError, match="more than 10,000,000 bytes"):
        load_suite(tmp_path / "s.yaml")
    with pytest.raises(ValueError, match="more than 10,000,000 bytes"):
        message.to_send()


@pytest.mark.parametrize(
    ("user", "problem"),
    [
        ("{approve: false}", "approve: expected a string, got false"),
        ("{approve: true, reject: no}", "reject: unknown key; accepted are approve"),
        ("{parts: []}", "parts: needs at least one part"),
        ("{parts: [{text: a, data: 1}]}", r"parts\[0\]: expected one of text, data and file"),
        ("{parts: [{metadata: {}}]}", r"parts\[0\]: expected one of text, data and file"),
        ("{parts: [{file: {name: a}}]}", "expected bytes, in base64, or a uri"),
        ("{parts: [{file: {bytes: '%'}}]}", "bytes: "),
        ("{parts: [{file: a.txt}]}", "no such file: "),
        ("{metadata: {}}", "parts is missing"),
    ],
)
def test_what_is_no_message(user: str, problem: str) -> None:
    with pytest.raises(SuiteError, match=problem):
        parse_suite(suite_of(user))


def test_what_was_not_kept_cannot_be_sent() -> None:
    assert is_kept(None)
    assert is_kept([{"text": "a"}, {"url": "http://a"}])
    assert not is_kept([])
    assert not is_kept([{"text": "a"}, {"filename": "a.txt"}])
    assert not is_kept([{"text": ""}, {"data": 1}])
    assert not is_kept([{"data": {"approved": False, "reason": 5}}])
    for data, content in (({"approved": False, "reason": ""}, {"reject": True}), ({"choice": None}, {"choose": None})):
        assert is_kept([{"data": data}])
        assert getattr(sent_message("x", [{"data": data}]), "content", None) == content
