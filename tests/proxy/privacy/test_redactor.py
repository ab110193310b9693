"""Redaction of texts, values and turns: what is found goes, what is not stays, and twice is as once."""

from __future__ import annotations

import json
from typing import Any

import pytest
from a2a_eval_proxy.privacy.redactor import Action, Redactor, parse_rules, without_content
from a2a_eval_proxy.turn import Turn
from a2a_tool_capture import Finding, ToolCall
from hypothesis import example, given
from support.junk import json_values
from support.kept import turn as kept_turn

KEY = b"a key of the tests"
EVERY = "token,email,iban,card,phone,ip"


def redactor(rules: Any, key: bytes = KEY) -> Redactor:
    return Redactor(parse_rules(rules), key)


def turn(*calls: ToolCall, **fields: Any) -> Turn:
    return kept_turn(1, tool_calls=list(calls), **fields)


# ── texts and values ────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("rules", "text", "expected"),
    [
        ("email", "to ann@example.com, bob@example.org.", "to [email], [email]."),
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
    rules = redactor([{"name": "amount", "action": "hash"}])
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


# ── turns and names ─────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("name", "action", "expected"),
    [
        ("PASSWORD", "mask", {"password": "[redacted]", "deep": [{"PIN": 1}, {"pin": False}], "pins": ["a"]}),
        ("pin", "mask", {"password": "x", "deep": [{"PIN": "[redacted]"}, {"pin": "[redacted]"}], "pins": ["a"]}),
        ("pins", "mask", {"password": "x", "deep": [{"PIN": 1}, {"pin": False}], "pins": "[redacted]"}),
        ("p.n", "mask", {"password": "x", "deep": [{"PIN": 1}, {"pin": False}], "pins": ["a"]}),
    ],
)
def test_the_members_of_a_name_are_redacted_wherever_they_are(name: str, action: str, expected: Any) -> None:
    arguments = {"password": "x", "deep": [{"PIN": 1}, {"pin": False}], "pins": ["a"]}
    rules = redactor([{"name": name, "action": action}])
    (call,) = rules.calls([ToolCall("login", arguments, result=json.dumps(arguments))])
    assert (call.name, call.arguments) == ("login", expected)
    assert json.loads(call.result or "") == expected
    assert rules.calls([call]) == [call]


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


def test_the_world_is_redacted_and_not_kept_without_content() -> None:
    world = {"turn": {"seen": {"seen": "ann@example.com"}}, "case": {"error": "boom: ann@example.com"}}
    masked = redactor([{"name": "seen"}, "email"]).turn(turn(world=world))
    assert masked.world == {"turn": {"seen": {"seen": "[redacted]"}}, "case": {"error": "boom: [email]"}}
    assert without_content(turn(world=world)).world is None


def test_parts_of_messages_and_waiting_calls_are_redacted_and_not_kept_without_content() -> None:
    parts = [{"data": {"to": "ann@example.com"}}, {"filename": "a.txt", "raw": "YW5uQGV4YW1wbGUuY29t"}]
    waiting = [{"name": "mail", "arguments": {"to": "ann@example.com", "n": 1}, "id": "c1"}]
    kept = turn(user_parts=parts, approvals=waiting)
    masked = redactor(["email"]).turn(kept)
    assert masked.user_parts == [{"data": {"to": "[email]"}}, {"filename": "a.txt"}]
    assert masked.approvals == [{"name": "mail", "arguments": {"to": "[email]", "n": 1}, "id": "c1"}]
    bare = without_content(kept)
    assert bare.user_parts is None
    assert bare.approvals == [{"name": "mail", "arguments": {"to": "string", "n": "number"}, "id": "c1"}]


def test_names_of_spans_are_redacted_and_not_kept_without_content() -> None:
    named = [{"span_id": "1", "name": "mail to jane@example.com"}]
    masked = redactor(["email"]).turn(turn(spans=named))
    assert masked.spans == [{"span_id": "1", "name": "mail to [email]"}]
    assert without_content(turn(spans=named)).spans is None


def test_a_pattern_that_does_not_end_is_stopped_and_all_is_masked() -> None:
    assert redactor([{"pattern": r"(\w|\d)+(\d|\w)+$"}]).text("a1" * 200 + "!") == "[redacted]"


# ── rules as people write them ──────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("emial", "there is no detector 'emial'; expected one of token, email"),
        ("", "there is no detector ''"),
        ("email:blur", "there is no action 'blur'; expected one of mask, hash"),
        ([], "expected names of detectors separated by commas, or a list of"),
        ({"detector": "email"}, "expected names of detectors"),
        ("[{", "which is no JSON"),
        ([{"detector": "email", "name": "x"}], "expected {detector: NAME}, {name: NAME} or {pattern: REGEX}"),
        ([{"detector": "email", "acton": "hash"}], "a rule has no 'acton'"),
        ([{"detector": ["email"]}], "there is no detector ['email']"),
        ([{"detector": "email", "action": 1}], "there is no action 1"),
        ([{"pattern": "("}], "pattern '(' does not compile: missing )"),
        ([{"pattern": ""}], "pattern: expected a regular expression"),
        ([{"name": ""}], "name: expected that of a member, got ''"),
        ([{"name": 7}], "name: expected that of a member, got 7"),
    ],
)
def test_wrong_rules_are_told_in_a_sentence(given: Any, message: str) -> None:
    with pytest.raises(ValueError) as caught:
        parse_rules(given)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_rules_in_a_variable_may_be_json() -> None:
    assert parse_rules('[{"name": "pin", "action": "mask"}, "email:hash"]') == parse_rules(
        [{"name": "pin"}, {"detector": "email", "action": Action.HASH}]
    )
