"""Reading completions, answers and errors, whatever a server sends."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tool_call_evaluators.judge.answers import (
    Completion,
    UnfitAnswerError,
    error_of,
    misfit,
    read_answer,
    read_completion,
)
from tool_call_evaluators.judge.question import JudgeAnswerError
from tool_call_evaluators.judge.transport import LONGEST_BACKOFF_S, asked_wait, backoff, is_transient
from tool_call_evaluators.judged.base import grade_schema

SCHEMA = grade_schema(1, 5)

MEMBERS = ("choices", "message", "content", "usage", "prompt_tokens", "refusal", "finish_reason", "model", "error")

json_data = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text() | st.sampled_from(MEMBERS), inner, max_size=4)
    ),
    max_leaves=12,
)


def completion(text, finish_reason="stop"):
    return Completion(text, "m", finish_reason, None, None)


@given(json_data)
def test_any_json_is_a_completion_or_refused(body):
    try:
        found = read_completion(body)
    except JudgeAnswerError:
        return
    assert isinstance(found.text, str)


def test_a_completion_of_parts():
    message = {"content": [{"type": "text", "text": "4"}, {"type": "image"}, {"type": "text", "text": "2"}]}
    found = read_completion({"choices": [{"message": message}], "usage": {"prompt_tokens": -1, "completion_tokens": 3}})
    assert found == Completion("42", "", "", None, 3)


@given(st.text())
def test_any_text_is_an_answer_or_unfit(text):
    try:
        value = read_answer(completion(text), SCHEMA)
    except UnfitAnswerError:
        return
    assert not misfit(value, SCHEMA)


@given(st.text(), st.integers(1, 5))
def test_what_fits_comes_back_as_it_was(reason, score):
    value = {"reason": reason, "score": score}
    assert read_answer(completion(json.dumps(value)), SCHEMA) == value


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ('{"error": {"message": "m", "code": "c", "param": "p"}}', ("m", "c", "p")),
        ('{"error": {"message": "m", "type": "t", "code": null, "param": null}}', ("m", "t", "")),
        ('{"error": "m"}', ("m", None, "")),
        ('{"detail": "m"}', ("m", None, "")),
        ('{"error": {"code": 500}}', ('{"code": 500}', "500", "")),
        ("plain\n text", ("plain text", None, "")),
        ("", ("", None, "")),
    ],
)
def test_errors_in_all_their_shapes(body, expected):
    assert error_of(body) == expected


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        ({"reason": "r", "score": 4}, ""),
        ({"reason": "r"}, "'score' is a required property"),
        ({"reason": "r", "score": 6}, "score: 6 is not one of [1, 2, 3, 4, 5]"),
    ],
)
def test_a_misfit_is_named_with_its_place(value, problem):
    assert misfit(value, SCHEMA) == problem


NOW = datetime(2026, 1, 31, 12, 0, 0, tzinfo=UTC)


@pytest.mark.parametrize(
    ("status", "code", "transient"),
    [
        *((status, None, True) for status in (408, 409, 425, 429, 500, 502, 503, 504, 529)),
        *((status, None, False) for status in (301, 400, 401, 403, 404, 413, 422)),
        (429, "rate_limit_exceeded", True),
        (429, "insufficient_quota", False),
    ],
)
def test_what_is_worth_repeating(status, code, transient):
    assert is_transient(status, code) is transient


@given(st.integers(0, 10_000), st.floats(0, 1))
def test_waits_grow_to_a_limit_and_are_never_short(attempt, fraction):
    longest = min(LONGEST_BACKOFF_S, 0.5 * 2 ** min(attempt, 99))
    assert longest / 2 <= backoff(attempt, fraction) <= longest
    assert longest / 2 <= backoff(attempt) <= longest


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        ({}, None),
        ({"retry-after": "5"}, 5.0),
        ({"retry-after": "0"}, 0.0),
        ({"retry-after-ms": "250", "retry-after": "5"}, 0.25),
        ({"retry-after-ms": "soon", "retry-after": "5"}, 5.0),
        ({"retry-after": "Sat, 31 Jan 2026 12:00:30 GMT"}, 30.0),
        ({"retry-after": "Sat, 31 Jan 2026 11:00:00 GMT"}, 0.0),
        ({"retry-after": "Sat, 31 Jan 2026 12:00:30 -0000"}, 30.0),
        ({"retry-after": "later"}, None),
        ({"retry-after": ""}, None),
        ({"retry-after": "9" * 400}, None),
        ({"retry-after": "²"}, None),
        ({"retry-after": "-5"}, None),
        ({"retry-after": "inf"}, None),
        ({"retry-after": "nan"}, None),
    ],
)
def test_what_a_server_asks_for(headers, expected):
    assert asked_wait(headers, NOW) == expected
