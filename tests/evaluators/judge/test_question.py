"""Questions and their keys, usage and its sums."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tool_call_evaluators.judge import Prompt, Question, Usage
from tool_call_evaluators.judge.question import total

PROMPT = Prompt("p", "1", "Judge this.")
QUESTION = Question(PROMPT, {"answer": "a", "user message": "b"}, {"type": "object"}, "strictly")


def test_an_equal_question_has_an_equal_key():
    again = Question(
        Prompt("p", "1", "Judge this."), {"answer": "a", "user message": "b"}, {"type": "object"}, "strictly"
    )
    assert again.key("j") == QUESTION.key("j")
    assert len(QUESTION.key("j")) == 64


@pytest.mark.parametrize(
    "change",
    [
        {"prompt": Prompt("p", "2", "Judge this.")},
        {"prompt": Prompt("p", "1", "Judge that.")},
        {"prompt": Prompt("q", "1", "Judge this.")},
        {"data": {"answer": "a", "user message": "c"}},
        {"data": {"user message": "b", "answer": "a"}},
        {"data": {"answer": "a"}},
        {"schema": {"type": "array"}},
        {"criteria": ""},
        {"vote": 1},
    ],
)
def test_another_question_has_another_key(change):
    assert replace(QUESTION, **change).key("j") != QUESTION.key("j")


tokens = st.none() | st.integers(0, 99)
usages = st.builds(Usage, st.integers(0, 9), tokens, tokens, st.none() | st.just(0.5))


@given(st.lists(usages, max_size=5))
def test_what_is_unknown_of_one_is_unknown_of_all(all_of_them):
    whole = total(all_of_them)
    assert whole.requests == sum(usage.requests for usage in all_of_them)
    for field in ("prompt_tokens", "completion_tokens", "cost"):
        parts = [getattr(usage, field) for usage in all_of_them]
        assert getattr(whole, field) == (None if None in parts else sum(parts))
