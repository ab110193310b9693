"""The documentation: every evaluator is explained with all its options, and every example runs."""

from __future__ import annotations

import doctest
import inspect
import re
import textwrap
from dataclasses import fields
from pathlib import Path

import jsonschema
import pytest
from support import evaluator_lists
from tool_call_evaluators import parse_suite
from tool_call_evaluators.suite.lint import READ_BY, unused_expectations
from tool_call_evaluators.suite.schema import suite_schema
from tool_call_evaluators.suite.yaml_document import read_document

FOLDER = Path(__file__).parents[2] / "evaluators"
PAGES = [FOLDER / "README.md", *sorted((FOLDER / "docs").glob("*.md"))]
SCHEMA = jsonschema.Draft7Validator(suite_schema())
SECTIONS = dict(section.split("\n", 1) for _, page in evaluator_lists.pages() for section in page.split("\n## ")[1:])
EVALUATORS = [cls for family in evaluator_lists.families() for cls in family.members]


def blocks(page: Path, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", page.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)


def check_suite(text: str, folder: Path) -> None:
    """A part of a suite can be read, and what a whole one expects is read by its evaluators."""
    whole = text if "suite:" in text else f"suite: x\n{text}"
    suite = parse_suite(whole, str(folder / "suite.yaml"))
    assert [error.message for error in SCHEMA.iter_errors(read_document(whole).value)] == []
    assert "suite:" not in text or unused_expectations(suite) == [], "a run of a whole example can pass"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_examples_run(page):
    names: dict[str, object] = {}
    runner = doctest.DocTestRunner()
    for text in blocks(page, "pycon"):
        test = doctest.DocTestParser().get_doctest(text, names, page.name, str(page), 0)
        report: list[str] = []
        runner.run(test, out=report.append, clear_globs=False)
        names = test.globs
        assert not runner.failures, "".join(report)


@pytest.mark.parametrize("page", [*PAGES, FOLDER.parent / "README.md"], ids=str)
def test_suite_snippets_can_be_read(page, tmp_path):
    (tmp_path / "my_evaluators.py").write_text("")
    for text in blocks(page, "yaml"):
        check_suite(text, tmp_path)


@pytest.mark.parametrize("cls", EVALUATORS, ids=lambda cls: cls.name)
def test_every_evaluator_is_explained_with_an_example_and_all_its_options(cls, tmp_path):
    section = SECTIONS[cls.name]
    told = set(re.findall(r"^- `(\w+)` \(.+\).*\n  \S", section, re.MULTILINE))
    common = {"id", "threshold", "judge", "votes"}
    assert {option.name for option in fields(cls)} - common == told - common
    example = textwrap.dedent(inspect.getdoc(cls).partition("Example:\n\n")[2])
    assert cls.name in example
    check_suite(example, tmp_path)


def test_the_page_on_suites_says_which_evaluators_read_an_expectation():
    table = (FOLDER / "docs/suites.md").read_text("utf-8").partition("| key of `expect` | read by |\n")[2]
    rows = [re.findall(r"`(\w+)`", line) for line in table.partition("\n\n")[0].splitlines()[1:]]
    assert {key: tuple(names) for key, *names in rows} == READ_BY


def test_the_readme_lists_the_evaluators():
    text = evaluator_lists.README.read_text("utf-8")
    assert text == evaluator_lists.readme(), "run `python tests/support/evaluator_lists.py`"
