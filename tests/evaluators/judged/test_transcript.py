"""What a judge is given to read: one line for each thing, whatever was written in it."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st
from tool_call_evaluators import EvalCase
from tool_call_evaluators.judged.base import calls_text, numbered, turn_data, turns_text, whole_data

nasty = st.text(alphabet=st.characters(exclude_categories=["Cs"]) | st.sampled_from('\n\r\u2028"{}'))


@given(st.lists(nasty, min_size=1, max_size=4))
def test_each_call_turn_and_text_is_one_line_of_json(texts):
    calls = [{"name": "t", "arguments": {text: text}, "result": text, "error": text} for text in texts]
    turns = EvalCase(turns=[{"user_text": text, "response_text": text, "tool_calls": calls} for text in texts]).turns
    for written in (calls_text(EvalCase(tool_calls=calls).tool_calls), turns_text(turns), numbered("task", texts)):
        lines = written.split("\n")
        assert len(lines) == len(texts)
        assert all(isinstance(json.loads(line), dict) for line in lines)


def test_a_turn_in_the_order_it_happened():
    case = EvalCase(user_text="u", response_text="", tool_calls=[{"name": "a"}], history=[{"user_text": "before"}])
    assert list(turn_data(case)) == ["earlier turns", "user message", "tool calls", "answer"]
    assert turn_data(EvalCase()) == {}
    assert list(whole_data(EvalCase(turns=[case]))) == ["conversation"]
    assert list(whole_data(EvalCase(user_text="u"))) == ["user message"]
