"""UiPath's Tool Call Args evaluator: its names, its examples with their printed scores, and its options."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.sdk.trace import ReadableSpan
from tool_call_evaluators import (
    AgentTrace,
    EvalCase,
    OptionError,
    Status,
    get_evaluator,
    parse_suite,
)
from tool_call_evaluators.importers import uipath
from tool_call_evaluators.importers.uipath import (
    AgentExecution,
    ToolCall,
    ToolCallArgsEvaluationCriteria,
    ToolCallArgsEvaluator,
    ToolCallArgsEvaluatorConfig,
)

UPDATE = {"user_id": 123, "fields": {"email": "user@example.com"}, "notify": True}
REQUEST = {"endpoint": "/api/users", "method": "GET", "headers": {"Authorization": "Bearer token123"}}
MAIL = {"to": "user@example.com", "subject": "Welcome"}
LONG_MAIL = {**MAIL, "cc": "admin@example.com", "body": "Welcome to our platform!"}
PROFILE = [
    ("validate_input", {"data": {"user_id": 123}}),
    ("fetch_user", {"user_id": 123}),
    ("update_profile", {"user_id": 123, "updates": {"name": "John Doe"}}),
]
ORDER = {
    "customer": {"id": 123, "name": "John Doe", "address": {"street": "123 Main St", "zip": "10001"}},
    "items": [{"product_id": 1, "quantity": 2}, {"product_id": 2, "quantity": 1}],
    "total": 99.99,
}
EXAMPLES = [
    pytest.param(
        [("update_user", UPDATE)], [("update_user", UPDATE)], {}, 1.0, id="basic", marks=pytest.mark.statement(16, 17)
    ),
    pytest.param(
        [("api_request", REQUEST)],
        [("api_request", REQUEST)],
        {"strict": True},
        1.0,
        id="strict",
        marks=pytest.mark.statement(18),
    ),
    pytest.param(
        [PROFILE[0], ("fetch_user", {"user_id": 999}), PROFILE[2]],
        PROFILE,
        {},
        2 / 3,
        id="proportional",
        marks=pytest.mark.statement(8, 19),
    ),
    pytest.param(
        [("send_email", LONG_MAIL)],
        [("send_email", MAIL)],
        {"subset": True},
        1.0,
        id="subset",
        marks=pytest.mark.statement(10, 20),
    ),
    pytest.param(PROFILE, PROFILE, {}, 1.0, id="multiple", marks=pytest.mark.statement(21)),
    pytest.param(
        [("create_order", ORDER)], [("create_order", ORDER)], {}, 1.0, id="nested", marks=pytest.mark.statement(22)
    ),
]
"""The six examples of UiPath's page (docs/eval/tool_call_args.md of the package uipath): calls made, calls expected,
options, and the printed score."""


def readable(name, arguments, number):
    return ReadableSpan(
        name=name, start_time=number, end_time=number + 1, attributes={"tool.name": name, "input.value": arguments}
    )


def plain(name, arguments, number):
    return {"name": name, "start_time": number, "attributes": {"tool.name": name, "input.value": arguments}}


def criteria(calls):
    return {"tool_calls": [{"name": name, "args": args} for name, args in calls]}


@pytest.mark.parametrize("written", [str, json.dumps], ids=["literal", "json"])
@pytest.mark.parametrize("span", [readable, plain])
@pytest.mark.parametrize(("made", "expected", "options", "score"), EXAMPLES)
@pytest.mark.statement(23, 44)
async def test_an_example_scores_as_printed(made, expected, options, score, span, written):
    by_hand = EvalCase(
        tool_calls=[{"name": name, "args": args} for name, args in made],
        expected_tool_calls=criteria(expected)["tool_calls"],
    )
    assert get_evaluator("tool-call-args", **options).evaluate(by_hand).score == pytest.approx(score)
    spans = [span(name, written(arguments), number) for number, (name, arguments) in enumerate(made)]
    case = AgentTrace.from_spans(spans).case(expected_tool_calls=criteria(expected)["tool_calls"])
    assert get_evaluator("tool-call-args", **options).evaluate(case).score == pytest.approx(score)
    evaluator = ToolCallArgsEvaluator(id="args-1", config={"name": "ToolCallArgsEvaluator", **options})
    execution = AgentExecution(agent_input={"a": 1}, agent_output={"status": "success"}, agent_trace=spans)
    result = await evaluator.validate_and_evaluate_criteria(execution, criteria(expected))
    assert result.score == pytest.approx(score)


@pytest.mark.statement(3, 4, 5, 25)
def test_its_configuration():
    config = ToolCallArgsEvaluatorConfig()
    assert (config.name, config.strict, config.subset) == ("ToolCallArgsEvaluator", False, False)
    assert config.default_evaluation_criteria is None
    for option, name in ((config, config.name), (None, "ToolCallArgsEvaluator"), ({"name": "Mine"}, "Mine")):
        evaluator = ToolCallArgsEvaluator(id="args-1", config=option)
        assert (evaluator.id, evaluator.name) == ("args-1", name)
    with pytest.raises(OptionError, match="tool_call_args: unknown option 'sub'"):
        ToolCallArgsEvaluator(id="a", config={"sub": True})
    assert parse_suite("suite: x\nevaluators: [{tool-call-args: {name: Mine}}]").metrics == ("Mine",)


MADE = EvalCase(tool_calls=[{"name": "f", "args": {"x": 1}}], response_text='{"x": 1}')


@pytest.mark.statement(1, 6, 30, 45, 46, 48)
@pytest.mark.parametrize(
    ("name", "fits", "does_not"),
    [
        ("tool-call-args", {"tool_calls": [{"name": "f", "args": {"x": 1}}]}, {"tool_calls": [{"name": "g"}]}),
        ("tool-call-order", {"tool_calls_order": ["f"]}, {"tool_calls_order": ["g"]}),
        ("tool-call-count", {"tool_calls_count": {"f": ["=", 1]}}, {"tool_calls_count": {"f": [">", 1]}}),
        ("tool-call-output", {"tool_outputs": [{"name": "f", "output": ""}]}, {"tool_outputs": []}),
        ("exact-match", {"expected_output": {"x": 1}}, {"expected_output": {"x": 2}}),
        ("json-similarity", {"expected_output": {"x": 1}}, {"expected_output": {"x": "a"}}),
        ("contains", {"search_text": "x"}, {"search_text": "y"}),
    ],
)
def test_default_criteria_are_those_of_cases_without_their_own(name, fits, does_not):
    assert get_evaluator(name, **fits).evaluate(MADE).score == 1.0
    assert get_evaluator(name, **does_not).evaluate(MADE).score == 0.0


@pytest.mark.statement(24, 26)
async def test_it_is_awaited_with_an_execution():
    execution = AgentExecution(agent_input={"q": 1}, agent_output="ok", agent_trace=[plain("f", '{"x": 1}', 0)])
    made = await ToolCallArgsEvaluator(id="e").validate_and_evaluate_criteria(
        agent_execution=execution, evaluation_criteria={"toolCalls": [{"name": "f", "args": {"x": 1}}]}
    )
    assert made.score == 1.0
    skipped = await ToolCallArgsEvaluator(id="e").validate_and_evaluate_criteria(execution)
    assert skipped.status is Status.SKIPPED
    with pytest.raises(TypeError, match="needs agent_execution or workload_execution"):
        await ToolCallArgsEvaluator(id="e").validate_and_evaluate_criteria()


@pytest.mark.statement(27, 28, 29)
async def test_the_justification_has_its_shape():
    calls = [("update_user", {"user_id": 1}), ("update_user", {"user_id": 123, "status": "active"})]
    spans = [plain(name, str(args), number) for number, (name, args) in enumerate(calls)]
    result = await ToolCallArgsEvaluator(id="a").validate_and_evaluate_criteria(
        AgentExecution(agent_trace=spans), criteria(calls[1:])
    )
    assert result.score == 1.0
    assert result.details["explained_tool_calls_args"] == {
        "update_user_0": "Actual: {'user_id': 1}, Expected: {'user_id': 123, 'status': 'active'}, Score: 0.0",
        "update_user_1": "Actual: {'user_id': 123, 'status': 'active'}, "
        "Expected: {'user_id': 123, 'status': 'active'}, Score: 1.0",
    }


KINDS = {
    "Args": ({"tool_calls": [{"name": "f", "args": {"x": 1}}]}, "explained_tool_calls_args", {"f_0"}),
    "Order": ({"tool_calls_order": ["f"]}, "lcs", {"f"}),
    "Count": ({"tool_calls_count": {"f": ("=", 1)}}, "explained_tool_calls_count", {"f"}),
    "Output": ({"tool_outputs": [{"name": "f", "output": "ok"}]}, "explained_tool_calls_outputs", {"f_0"}),
}


@pytest.mark.statement(12)
@pytest.mark.parametrize("kind", KINDS)
async def test_its_types_are_accepted_and_returned(kind):
    plain_criteria, explained, keys = KINDS[kind]
    made = {"attributes": {"tool.name": "f", "input.value": '{"x": 1}', "output.value": "ok"}}
    execution = AgentExecution(agent_trace=[made])
    (field,) = plain_criteria
    entries = plain_criteria[field]
    if kind in ("Args", "Output"):
        entries = [(ToolCall if kind == "Args" else uipath.ToolOutput)(**entry) for entry in entries]
    own = getattr(uipath, f"ToolCall{kind}EvaluationCriteria")(**{field: entries})
    config = getattr(uipath, f"ToolCall{kind}EvaluatorConfig")(strict=True, default_evaluation_criteria=own)
    evaluator = getattr(uipath, f"ToolCall{kind}Evaluator")(id="e", config=config)
    assert evaluator.name == config.name == f"ToolCall{kind}Evaluator"
    for passed in (own, plain_criteria, None):
        result = await evaluator.validate_and_evaluate_criteria(execution, passed)
        assert result.score == 1.0
        assert type(result.details) is getattr(uipath, f"ToolCall{kind}EvaluatorJustification")
        assert set(getattr(result.details, explained)) == keys
        assert result.to_dict()["details"] == dict(result.details)


@pytest.mark.statement(13, 36)
async def test_an_expected_call_goes_by_its_id_if_a_span_has_it():
    spans = [{"attributes": {"tool.name": "renamed", "tool.id": "t-1", "input.value": "{}"}}]
    for expected, fits in (
        (ToolCall(name="pay", args={}, id="t-1"), True),
        (ToolCall(name="renamed", args={}, id="t-2"), True),
        (ToolCall(name="pay", args={}, id="t-2"), False),
        (ToolCall(name="pay", args={}), False),
        (ToolCall(name="Renamed", args={}), False),
        (ToolCall(name="renamed ", args={}), False),
    ):
        result = await ToolCallArgsEvaluator(id="e").validate_and_evaluate_criteria(
            AgentExecution(agent_trace=spans), ToolCallArgsEvaluationCriteria(tool_calls=[expected])
        )
        assert result.score == float(fits), expected


def score(made, expected, **options):
    case = EvalCase(
        tool_calls=[{"name": name, "args": args} for name, args in made],
        expected_tool_calls=[{"name": name, "args": args} for name, args in expected],
    )
    return get_evaluator("tool-call-args", **options).evaluate(case).score


@pytest.mark.statement(9, 11, 15, 38, 40, 41)
@pytest.mark.parametrize(
    ("made", "options", "share"),
    [
        (PROFILE[:2], {}, 2 / 3),
        ([*PROFILE, ("extra", {})], {}, 1.0),
        (PROFILE[::-1], {}, 1.0),
        ([(name, {**args, "more": 1}) for name, args in PROFILE], {}, 0.0),
        ([(name, {**args, "more": 1}) for name, args in PROFILE], {"subset": True}, 1.0),
        ([*PROFILE[:2], ("update_profile", {})], {"subset": True}, 2 / 3),
    ],
)
def test_each_expected_tool_counts_alone(made, options, share):
    assert score(made, PROFILE, **options) == pytest.approx(share)
    assert score(made, PROFILE, strict=True, **options) == float(share == 1.0)


@pytest.mark.statement(14, 31, 32, 42, 43)
@pytest.mark.parametrize(
    ("made", "expected", "subset", "similar"),
    [
        ({"q": "hello worle"}, {"q": "hello world"}, False, 10 / 11),
        ({"n": 90}, {"n": 100}, False, 0.9),
        ({"a": 1, "b": "x"}, {"a": 1, "b": True}, False, 1 / 2),  # another type
        ({"a": 1}, {"a": 1, "b": 2}, False, 1 / 2),  # a missing argument
        ({"a": 1, "more": 2}, {"a": 1}, False, 1 / 2),
        ({"a": 1, "more": 2}, {"a": 1}, True, 1.0),
        ({}, {"a": 1}, False, 0.0),
        ({"a": "ORD-1"}, {"a": {"$regex": "ORD-[0-9]+"}}, False, 1.0),
        ({"a": "ORD-1", "b": 2}, {"a": {"$regex": "[0-9]+"}, "b": 2}, False, 1 / 2),
    ],
)
def test_partial_credit_by_json_similarity(made, expected, subset, similar):
    options = {"subset": subset, "argument_score": "similarity"}
    assert score([("f", made)], [("f", expected)], **options) == pytest.approx(similar)
    assert score([("f", made)], [("f", expected)], **options, strict=True) == float(similar == 1.0)
    assert score([("f", made)], [("g", expected)], **options) == 0.0


def test_a_call_that_fits_is_taken_before_similar_ones_and_each_only_once():
    made = [("f", {"x": 9}), ("f", {"x": 10})]
    similar = {"argument_score": "similarity"}
    assert score(made, [("f", {"x": 10})], **similar) == 1.0
    assert score(made, [("f", {"x": 8}), ("f", {"x": 9})], **similar) == pytest.approx((1 + 0.75) / 2)
    assert score(made[:1], [("f", {"x": 10}), ("f", {"x": 10})], **similar) == pytest.approx(0.9 / 2)
    unknown = EvalCase(tool_calls=[{"name": "f", "arguments": None}], expected_tool_calls=[{"name": "f", "args": {}}])
    assert get_evaluator("tool-call-args", **similar).evaluate(unknown).status == "skipped"


values = st.one_of(st.integers(-3, 3), st.text("ab", max_size=2), st.booleans(), st.none())
calls = st.lists(st.tuples(st.sampled_from("fg"), st.dictionaries(st.sampled_from("xy"), values)), max_size=4)


@pytest.mark.statement(2)
@given(calls, calls, st.booleans())
def test_similarity_only_adds_credit(made, expected, subset):
    exact = score(made, expected, subset=subset)
    similar = score(made, expected, subset=subset, argument_score="similarity")
    assert 0.0 <= exact <= similar <= 1.0
    assert score(expected, expected, argument_score="similarity") == 1.0


def test_criteria_may_name_a_tool_by_the_id_in_its_spans():
    attributes = {"tool.name": "Get user", "tool.id": "tool-7", "input.value": "{'x': 1}", "output.value": "Ann"}
    trace = AgentTrace.from_spans([{"name": "Get user", "attributes": attributes}] * 2)
    for name in ("tool-7", "Get user"):
        case = trace.case(
            expected_tool_calls=[{"name": name, "args": {"x": 1}}] * 2,
            tool_calls_order=[name, name],
            tool_calls_count={name: ["=", 2]},
            tool_outputs=[{"name": name, "output": "Ann"}] * 2,
        )
        for kind in ("tool-call-args", "tool-call-order", "tool-call-count", "tool-call-output"):
            assert get_evaluator(kind, strict=True).evaluate(case).score == 1.0
