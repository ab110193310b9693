"""Data sets of Dokimos: its own files, its CSV form, and what of an example becomes what of a case."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tool_call_evaluators import SuiteError, parse_suite
from tool_call_evaluators.importers import import_suite, import_text
from tool_call_evaluators.suite import Expectation
from tool_call_evaluators.suite.writing import suite_text

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
