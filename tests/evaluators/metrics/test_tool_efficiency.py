"""tool_efficiency: repeats and loops."""

from __future__ import annotations

import pytest
from a2a_tool_capture import ToolCall
from hypothesis import given
from hypothesis import strategies as st
from tool_call_evaluators import EvalCase
from tool_call_evaluators.metrics.tool_efficiency import ToolEfficiency


def evaluate(*calls, **options):
    made = [{"name": name, "arguments": arguments} for name, arguments in calls]
    return ToolEfficiency(**options).evaluate(EvalCase(tool_calls=made))


@pytest.mark.statement(192, 193)
@pytest.mark.parametrize(
    ("calls", "options", "score"),
    [
        ([], {}, 1),
        ([("a", {})], {}, 1),
        ([("a", {}), ("b", {})], {}, 1),
        ([("a", {"n": 1}), ("a", {"n": 2})], {}, 1),
        ([("a", {"n": 1}), ("a", {"n": 1.0})], {}, 1 / 2),
        ([("a", {}), ("b", {}), ("a", {})], {}, 2 / 3),
        ([("a", {}), ("a", {}), ("a", {}), ("b", {})], {}, 1 / 2),
        ([("a", None), ("b", None), ("b", {})], {}, None),  # unknown arguments may be the same as others
        ([("a", None), ("b", None)], {}, 1),
        ([("a", {"n": 1}), ("a", {"n": 2})], {"matcher": "ignore"}, 1 / 2),
        ([("a", {"q": "x"}), ("a", {"q": " X"})], {"matcher": {"trim": True}}, 1),
        # arguments that an agent sent are never read as placeholders
        *(
            ([("a", arguments), ("a", other)], {"matcher": mode}, score)
            for mode in ("exact", "subset")
            for arguments in ({"$any": True}, {"$type": "nonsense"}, {"q": {"$regex": "("}})
            for other, score in (({"q": 1}, 1), (arguments, 1 / 2))
        ),
    ],
)
def test_scores(calls, options, score):
    assert evaluate(*calls, **options).score == (None if score is None else pytest.approx(score))


@pytest.mark.statement(194)
def test_repeats_and_loops_by_position():
    result = evaluate(("a", {}), ("a", {}), ("b", {}), ("a", {}), ("a", {}), ("a", {}))
    assert result.details == {
        "repeats": [{"position": position, "name": "a", "of": 1} for position in (2, 4, 5, 6)],
        "loops": [{"name": "a", "from": 1, "to": 2}, {"name": "a", "from": 4, "to": 6}],
    }
    assert result.reason == (
        "2 of 6 calls distinct: call 2 (a) repeats call 1; call 4 (a) repeats call 1; "
        "call 5 (a) repeats call 1; and 1 more."
    )


calls = st.lists(st.builds(ToolCall, st.sampled_from("ab"), st.sampled_from([{}, {"n": 1}])), max_size=6)


@given(calls)
def test_properties(made):
    score = ToolEfficiency().evaluate(EvalCase(tool_calls=made)).score
    distinct = {(call.name, str(call.arguments)) for call in made}
    assert score == (len(distinct) / len(made) if made else 1.0)
    if made:
        assert ToolEfficiency().evaluate(EvalCase(tool_calls=[*made, made[0]])).score < score
