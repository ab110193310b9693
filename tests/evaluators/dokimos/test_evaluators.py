"""What a user of Dokimos' agent evaluators begins with: the evaluators by their names, and its first examples."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from a2a_tool_capture import ToolCall
from tool_call_evaluators import (
    AgentTrace,
    SuiteError,
    ToolDefinition,
    evaluate,
    evaluate_conversation,
    evaluate_sync,
    get_evaluator,
    parse_suite,
)
from tool_call_evaluators.importers import import_suite, import_text
from tool_call_evaluators.importers.dokimos import eval_test_case
from tool_call_evaluators.suite import Expectation
from tool_call_evaluators.suite.writing import suite_text

FLIGHT = {"type": "object", "properties": {"origin": {"type": "string"}, "destination": {"type": "string"}}}
HOTEL = {"type": "object", "properties": {"city": {"type": "string"}, "nights": {"type": "integer"}}}
TOOLS = [
    ToolDefinition.of("search_flights", "Search for available flights", FLIGHT),
    ToolDefinition.of("book_hotel", "Book a hotel room", HOTEL),
]
TRACE = AgentTrace.of(
    [
        ToolCall("search_flights", {"origin": "JFK", "destination": "CDG"}, result='{"flight":"AF 7"}'),
        ToolCall("book_hotel", {"city": "Paris", "nights": 5}, result="booked"),
    ],
    "Found flights and booked your hotel in Paris.",
)
CASE = eval_test_case(
    "Find flights from NYC to Paris and book a hotel for 5 nights",
    TRACE.to_output_map(),
    {"toolCalls": [ToolCall("search_flights", {}), ToolCall("book_hotel", {})], "output": "Flights and a hotel."},
    {"tools": TOOLS, "tasks": ["Search for flights", "Book a hotel"]},
)

DETERMINISTIC = [
    pytest.param("ToolCallValidityEvaluator", 1.0, marks=pytest.mark.statement(154)),
    pytest.param("ToolCorrectnessEvaluator", 1.0, marks=pytest.mark.statement(155)),
    pytest.param("ToolTrajectoryEvaluator", 1.0, marks=pytest.mark.statement(156)),
    pytest.param("ToolErrorEvaluator", 1.0, marks=pytest.mark.statement(157)),
    pytest.param("ToolEfficiencyEvaluator", 1.0, marks=pytest.mark.statement(158)),
]
WITH_A_JUDGE = [
    pytest.param("TaskCompletionEvaluator", 0.5, marks=pytest.mark.statement(159)),
    pytest.param("ToolArgumentHallucinationEvaluator", 0.8, marks=pytest.mark.statement(160)),
    pytest.param("ToolNameReliabilityEvaluator", 0.8, marks=pytest.mark.statement(161)),
    pytest.param("ToolDescriptionReliabilityEvaluator", 0.8, marks=pytest.mark.statement(162)),
]


def model(prompt: str) -> str:
    """Both tasks are done; the origin was made up."""
    if '"task_1"' in prompt:
        return json.dumps({f"task_{number}": {"reason": "Done.", "verdict": True} for number in (1, 2)})
    if '"call_1"' in prompt:
        return json.dumps({f"call_{number}": {"reason": "So.", "verdict": number == 2} for number in (1, 2)})
    return '{"reason": "The same.", "score": 100}'


@pytest.mark.statement(143, 255)
@pytest.mark.parametrize(("name", "threshold"), [*DETERMINISTIC, *WITH_A_JUDGE])
def test_each_evaluator_has_its_name_and_its_threshold(name, threshold):
    assert get_evaluator(name).threshold == threshold
    assert get_evaluator(name, threshold=0.25).threshold == 0.25


@pytest.mark.statement(144, 150, 259)
def test_the_first_example_without_a_model():
    names = ["ToolCallValidityEvaluator", "toolCorrectness", "tool_trajectory", "tool_error", "tool_efficiency"]
    results = evaluate_sync(CASE, [get_evaluator(name) for name in names])
    assert [result.score for result in results] == [1.0, 1.0, 0.0, 1.0, 1.0]


@pytest.mark.statement(151, 260)
async def test_the_first_example_with_a_model():
    names = ["TaskCompletionEvaluator", "ToolArgumentHallucinationEvaluator", "llm_judge_output"]
    judged = [get_evaluator(name, judge=model) for name in names]
    results = await evaluate(CASE, [*judged, get_evaluator("tool_error")])
    assert [result.score for result in results] == [1.0, 0.5, 1.0, 1.0]


MESSAGES = [
    {"role": "user", "content": "Find flights to Paris"},
    {
        "role": "assistant",
        "tool_calls": [{"id": "1", "function": {"name": "search_flights", "arguments": '{"destination": "CDG"}'}}],
    },
    {"role": "tool", "tool_call_id": "1", "content": "AF 7"},
    {"role": "assistant", "content": "AF 7 goes there."},
    {"role": "user", "content": "And a hotel"},
    {
        "role": "assistant",
        "tool_calls": [{"id": "2", "function": {"name": "book_hostel", "arguments": "{}"}}],
    },
    {"role": "assistant", "content": "Booked."},
]


@pytest.mark.statement(242)
async def test_the_calls_of_each_turn_are_scored():
    case = AgentTrace.from_openai_messages(MESSAGES).conversation(tools=TOOLS)
    per_turn = [get_evaluator("ToolCallValidityEvaluator"), get_evaluator("ToolErrorEvaluator")]
    result = await evaluate_conversation(case, [], turn_evaluators=per_turn)
    assert [[item.score for item in turn] for turn in result.turns] == [[1.0, 1.0], [0.0, 0.0]]


@pytest.mark.statement(243)
async def test_a_conversation_is_a_case():
    """Its calls together, and the whole for a judge."""
    trace = AgentTrace.from_openai_messages(MESSAGES)
    together = trace.conversation(tools=TOOLS, tasks=["Find flights", "Book a hotel"])
    assert (together.tool_calls, together.response_text) == (trace.tool_calls, "Booked.")
    prompts = []

    def judge(prompt):
        prompts.append(prompt)
        return model(prompt)

    validity = get_evaluator("tool_call_validity")
    results = await evaluate(together, [validity, get_evaluator("task_completion", judge=judge)])
    assert [result.score for result in results] == [0.5, 1.0]
    assert all(text in prompts[0] for text in ("Find flights to Paris", "AF 7 goes there.", "Booked."))


FOLDER = Path(__file__).parents[1] / "fixtures/dokimos"
CASES = {
    "faq.csv": 3,
    "qa-dataset.json": 2,
    "qa-dataset-tutorial.json": 8,
    "refund-qa.json": 2,
    "sample.json": 3,
    "sample.jsonl": 3,
    "support-goldens.json": 3,
}


@pytest.mark.statement(153)
@pytest.mark.parametrize("name", CASES)
def test_its_own_data_sets_are_read_whole(name):
    imported = import_suite(FOLDER / name)
    assert (imported.format, len(imported.suite.cases)) == ("dokimos", CASES[name])
    assert parse_suite(suite_text(imported.suite)) == imported.suite
    kept = {"expected outputs are kept as `response`; add exact_match, json_similarity or a judge to score them"}
    assert set(imported.notes) <= kept
    for case in imported.suite.cases:
        assert case.turns[-1].expect.response or case.user_goal


def test_a_csv_file_with_quotes_lines_and_blanks():
    text = (
        "id, Input ,expected_output,tasks\r\n\r\n"
        'first,"Send ""this"",\nand that.", Done. ,"send this"\r\n'
        "second,Just this\r\n"
    )
    first, second = import_text(text, "x.csv").suite.cases
    assert (first.id, first.turns[0].user) == ("first", 'Send "this",\nand that.')
    assert (first.turns[0].expect.response, first.tasks) == ("Done.", ("send this",))
    assert (second.id, second.turns[0].user) == ("second", "Just this")
    assert second.turns[0].expect == Expectation()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "x.csv: is empty"),
        ("question,answer\na,b\n", "x.csv:1:1: has no column input; its columns are question, answer"),
        ("input\n", "x.csv: is empty"),
        ('input,note\nok,\n"",no\n', "x.csv:3:1: examples[1].inputs.input: must not be blank"),
        ('input\n"open\n', "x.csv:2:1: unexpected end of data"),
        ("input\na,b\n", "x.csv:2:1: has more fields than the first row has columns"),
        ("input\n" + "a" * 200_000, "x.csv:2:1: field larger than field limit"),
    ],
)
def test_what_is_wrong_with_a_csv_file(text, message):
    with pytest.raises(SuiteError) as caught:
        import_text(text, "x.csv")
    assert str(caught.value).startswith(message)


def example(**entries):
    imported = import_text(json.dumps({"examples": [{"input": "Hi", **entries}]}))
    return imported.suite.cases[0], imported.notes


def test_metadata_that_says_nothing_to_an_evaluator_becomes_tags():
    metadata = {"category": "returns", "level": 2, "requires-auth": True, "empty": " ", "none": None, "turnCount": 1}
    case, notes = example(metadata=metadata)
    assert (case.tags, notes) == (("category:returns", "level:2", "requires-auth:true"), ())
    case, notes = example(metadata={"sources": ["a"]})
    assert (case.tags, notes) == ((), ("metadata sources was not imported",))


@pytest.mark.parametrize(
    ("outputs", "response", "noted"),
    [
        ({"output": "Yes"}, "Yes", False),
        ({"answer": "Java 21", "confidence": 0.95}, {"answer": "Java 21", "confidence": 0.95}, False),
        ({"output": "Yes", "confidence": 0.95}, "Yes", True),
        ({"toolCalls": []}, None, False),
    ],
)
def test_expected_outputs_under_other_names(outputs, response, noted):
    case, notes = example(expectedOutputs=outputs)
    assert case.turns[0].expect.response == response
    assert ("of several expected outputs, only output and toolCalls were imported" in notes) == noted
