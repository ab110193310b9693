"""Redaction of texts, values and turns: what is found goes, what is not stays, and twice is as once."""

from __future__ import annotations

import json
from typing import Any

import pytest
from a2a_eval_proxy.privacy.content_removal import without_content
from a2a_eval_proxy.privacy.redactor import Action, Redactor, parse_path, parse_rules
from a2a_eval_proxy.turn import Turn
from a2a_tool_capture import Finding, ToolCall
from hypothesis import example, given
from hypothesis import strategies as st
from support.junk import json_values

KEY = b"a key of the tests"
DEEP = {"Deep": [{"PIN": 1}, {"pin": "two"}]}
EVERY = "token,email,iban,card,phone,ip"


def redactor(rules: Any, key: bytes = KEY) -> Redactor:
    return Redactor(parse_rules(rules), key)


def turn(*calls: ToolCall, **fields: Any) -> Turn:
    it = Turn("turn-1", "nightly", "http://agent", "JSONRPC", "1.0", 1.0, tool_calls=list(calls))
    for name, value in fields.items():
        setattr(it, name, value)
    return it


# ── texts and values ────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("rules", "text", "expected"),
    [
        ("email", "to ann@example.com, bob@example.org.", "to [email], [email]."),
        ("email:drop", "to ann@example.com.", "to ."),
        ("card,email", "4111 1111 1111 1111 of ann@example.com", "[card] of [email]"),
        ("iban,phone", "DE89 3704 0044 0532 0130 00", "[iban]"),
        ([{"pattern": r"ORD-\d+"}, "email"], "ORD-17 for ann@example.com", "[redacted] for [email]"),
        ([{"pattern": "(?i)secret sauce"}], "the SECRET Sauce", "the [redacted]"),
        ([{"pattern": "x*"}], "axxb", "a[redacted]b"),
        ("email", "nothing here", "nothing here"),
        ("token", "Bearer abcdefgh1 and [token]", "Bearer [token] and [token]"),
        ("email", '{"a": "ann\\u0040example.com"}', '{"a": "[email]"}'),
        ("email", '  ["x", {"b": "{\\"c\\": \\"ann@example.com\\"}"}]', '["x", {"b": "{\\"c\\": \\"[email]\\"}"}]'),
        ("email", '{"a": "ann@example.com", "a": 1}', '{"a": "[email]", "a": 1}'),
        ("email", "{not json ann@example.com", "{not json [email]"),
        ("email", '{"b":  1.0}', '{"b":  1.0}'),
    ],
)
def test_texts(rules: Any, text: str, expected: str) -> None:
    assert redactor(rules).text(text) == expected


@pytest.mark.parametrize(
    ("rules", "value", "expected"),
    [
        ("email", {"to": ["ann@example.com"]}, {"to": ["[email]"]}),
        ("email", {"ann@example.com": 1, "bob@example.com": 2}, {"[email]": 1, "[email] 2": 2}),
        ("card", {"n": 4111111111111111, "f": 4111111111111111.0}, {"n": "[card]", "f": "[card]"}),
        ("card", {"m": 1e300, "b": True, "n": -4.5, "i": 10**300}, {"m": 1e300, "b": True, "n": -4.5, "i": 10**300}),
        ("token", {"api_key": "plain", "Password": 1234}, {"api_key": "[token]", "Password": "[token]"}),
        ("token", {"accessToken": "x", "tokens": 2, "token": ""}, {"accessToken": "[token]", "tokens": 2, "token": ""}),
        ("token:drop", {"headers": {"Authorization": "Bearer x", "accept": "*/*"}}, {"headers": {"accept": "*/*"}}),
        ("token", {"Cookie": ["sid=a"], "password": {"old": "a b"}}, {"Cookie": "[token]", "password": "[token]"}),
        ("token", {"password": [], "token": {}, "secret": None}, {"password": [], "token": {}, "secret": None}),
        ("token", {"secretAccessKey": "wJalr"}, {"secretAccessKey": "[token]"}),
    ],
)  # fmt: skip
def test_values(rules: Any, value: Any, expected: Any) -> None:
    assert redactor(rules).value(value) == expected


def test_what_is_clean_is_the_same_object() -> None:
    value = {"a": [1, "b", {"c": None, "d": 2.5}], "e": '{"f": 1}'}
    assert redactor(EVERY).value(value) is value


def test_what_nests_too_deep_is_masked_unread() -> None:
    value: Any = "ann@example.com"
    for _ in range(500):
        value = [value]
    seen = json.dumps(redactor("email").value(value))
    assert "ann" not in seen
    assert "[redacted]" in seen


@given(json_values)
@example("Authorization: Bearer abcd1234")
@example("Authorization: Custom abcd1234, password: 'correct horse'")
@example("Set-Cookie: sid=abcd1234; Path=/")
def test_twice_is_as_once(value: Any) -> None:
    rules = redactor([{"detector": name, "action": "hash"} for name in EVERY.split(",")] + [{"pattern": "[0-9]{3}"}])
    once = rules.value(value)
    assert json.dumps(rules.value(once)) == json.dumps(once)  # NaN among them


# ── hashes ──────────────────────────────────────────────────────────────────────────────────────────────────


def test_equal_values_have_equal_hashes_under_one_key() -> None:
    rules = redactor("email:hash,card:hash")
    ann, bob = rules.text("ann@example.com"), rules.text("bob@example.com")
    assert ann == redactor("email:hash").text("ann@example.com") != bob
    assert ann != redactor("email:hash", b"another key").text("ann@example.com")
    assert rules.value({"n": 4111111111111111}) == rules.value({"n": 4111111111111111.0})
    assert rules.text(f"{ann} wrote to ann@example.com") == f"{ann} wrote to {ann}"


def test_a_hash_of_a_value_is_by_value() -> None:
    rules = redactor([{"path": "$..amount", "action": "hash"}])
    one = rules.calls([ToolCall("pay", {"amount": 1})])[0].arguments
    assert one == rules.calls([ToolCall("pay", {"amount": 1.0})])[0].arguments
    assert one != rules.calls([ToolCall("pay", {"amount": 2})])[0].arguments


def test_ids_are_hashed_never_masked() -> None:
    seen = redactor("email").turn(
        turn(ToolCall("a", {}, "call-ann@example.com"), conversation_id="user:ann@example.com")
    )
    other = redactor("email").turn(turn(conversation_id="user:bob@example.com"))
    assert "ann" not in seen.conversation_id + seen.tool_calls[0].id
    assert seen.conversation_id.startswith("user:[email:")
    assert seen.conversation_id != other.conversation_id


# ── turns and paths ─────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("path", "action", "expected"),
    [
        ("$.tool_calls[*].arguments.password", "drop", {**DEEP}),
        ("$.tool_calls[*].arguments['PASSWORD']", "mask", {"password": "[redacted]", **DEEP}),
        ("$..deep[*].pin", "mask", {"password": "x", "Deep": [{"PIN": "[redacted]"}, {"pin": "[redacted]"}]}),
        ("$..pin", "drop", {"password": "x", "Deep": [{}, {}]}),
        ("$.tool_calls[*].arguments.deep[1]", "drop", {"password": "x", "Deep": [{"PIN": 1}]}),
        ("$.tool_calls[1].arguments.password", "drop", {"password": "x", **DEEP}),
        ("$.tool_calls[*].arguments.*", "drop", {}),
        ("$.tool_calls[*].arguments", "drop", None),
        ("$.tool_calls", "drop", None),
        ("$..tool_calls", "mask", None),
    ],
)  # fmt: skip
def test_paths_into_arguments(path: str, action: str, expected: Any) -> None:
    arguments = {"password": "x", **DEEP}
    rules = redactor([{"path": path, "action": action}])
    (call,) = rules.calls([ToolCall("login", arguments)])
    assert (call.name, call.arguments) == ("login", expected)
    assert rules.calls([call]) == [call]


def test_paths_enter_the_json_of_results() -> None:
    rules = redactor([{"path": "$.tool_calls[*].result.user.name"}, {"path": "$.user_text", "action": "drop"}])
    said = turn(ToolCall("find", {}, result='{"user": {"Name": "Ann", "id": 7}}', error="none"), user_text="hi")
    seen = rules.turn(said)
    assert seen.tool_calls[0].result == '{"user": {"Name": "[redacted]", "id": 7}}'
    assert (seen.tool_calls[0].error, seen.user_text) == ("none", "")


def test_everything_that_is_said_in_a_turn_is_redacted() -> None:
    secret = "ann@example.com"
    said = turn(
        ToolCall(secret, {"a": {secret: [secret]}}, secret, json.dumps({"x": json.dumps([secret])}), f"no {secret}"),
        run=secret,
        conversation_id=secret,
        task_id=secret,
        user_text=secret,
        response_text=f"to {secret}",
        findings=[Finding("agent_error", f"it said {secret}", where=secret)],
    )
    seen = redactor("email").turn(said)
    assert "ann" not in json.dumps(seen.to_dict())
    assert seen.response_text == "to [email]"
    assert said.user_text == secret


def test_names_of_spans_are_redacted_and_not_kept_where_rules_do_not_cover_them() -> None:
    named = [{"span_id": "1", "name": "mail to jane@example.com"}]
    masked = redactor(["email"]).turn(turn(spans=named))
    assert masked.spans == [{"span_id": "1", "name": "mail to [email]"}]
    assert redactor([{"path": "$.user_text"}]).turn(turn(spans=named)).spans is None
    assert without_content(turn(spans=named)).spans is None


def test_a_pattern_that_does_not_end_is_stopped_and_all_is_masked() -> None:
    assert redactor([{"pattern": r"(\w|\d)+(\d|\w)+$"}]).text("a1" * 200 + "!") == "[redacted]"


# ── rules as people write them ──────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("emial", "there is no detector 'emial'; expected one of token, email"),
        ("", "there is no detector ''"),
        ("email:blur", "there is no action 'blur'; expected one of mask, hash, drop"),
        ([], "expected names of detectors separated by commas, or a list of"),
        ({"detector": "email"}, "expected names of detectors"),
        ("[{", "which is no JSON"),
        ([{"detector": "email", "path": "$..x"}], "expected {detector: NAME}, {path: PATH} or {pattern: REGEX}"),
        ([{"detector": "email", "acton": "drop"}], "a rule has no 'acton'"),
        ([{"detector": ["email"]}], "there is no detector ['email']"),
        ([{"detector": "email", "action": 1}], "there is no action 1"),
        ([{"pattern": "("}], "pattern '(' does not compile: missing )"),
        ([{"pattern": ""}], "pattern: expected a regular expression"),
        ([{"path": "tool_calls"}], "path 'tool_calls': a path begins with $"),
        ([{"path": "$"}], "path '$': it leads to everything"),
        ([{"path": "$.tool_calls[x]"}], "not understood from '[x]' on"),
        ([{"path": "$.tool_calls."}], "not understood from '.' on"),
        ([{"path": "$.turn_id"}], "expected one that begins with $.user_text, $.response_text, $.tool_calls or $.."),
        ([{"path": 7}], "path 7: expected one"),
    ],
)
def test_wrong_rules_are_told_in_a_sentence(given: Any, message: str) -> None:
    with pytest.raises(ValueError) as caught:
        parse_rules(given)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_rules_in_a_variable_may_be_json() -> None:
    assert parse_rules('[{"path": "$..pin", "action": "drop"}, "email:hash"]') == parse_rules(
        [{"path": "$..pin", "action": "drop"}, {"detector": "email", "action": Action.HASH}]
    )


@given(st.text("$.[]*'\"ab0-", max_size=12))
def test_a_path_is_read_or_refused(text: str) -> None:
    try:
        parse_path(text)
    except ValueError as error:
        told = str(error)
    else:
        told = "read"
    assert told
