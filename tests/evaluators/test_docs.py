"""The pages: every evaluator has one, every option is on it, every example runs."""

from __future__ import annotations

import doctest
import re
from dataclasses import fields
from pathlib import Path

import jsonschema
import pytest
from judges import prompts_page
from support.evaluator_lists import listed
from tool_call_evaluators import evaluator_class, evaluator_names, parse_suite
from tool_call_evaluators.judge import JudgeSettings
from tool_call_evaluators.suite.lint import unused_expectations
from tool_call_evaluators.suite.schema import suite_schema
from tool_call_evaluators.suite.yaml_document import read_document

FOLDER = Path(__file__).parents[2] / "evaluators"
PAGES = [FOLDER / "README.md", *sorted((FOLDER / "docs").glob("*.md"))]
SCHEMA = jsonschema.Draft7Validator(suite_schema())
BUILT_IN = [name for name in evaluator_names() if evaluator_class(name).__module__.startswith("tool_call_evaluators.")]


def blocks(page: Path, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", page.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)


def options_told(page: Path) -> dict[str, str]:
    """Option and default of the rows of its tables."""
    return dict(re.findall(r"^\| `(\w+)` \| ([^|]+) \|", page.read_text(encoding="utf-8"), re.MULTILINE))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_examples_run(page):
    names: dict[str, object] = {}
    runner = doctest.DocTestRunner()
    examples = 0
    for text in blocks(page, "pycon"):
        test = doctest.DocTestParser().get_doctest(text, names, page.name, str(page), 0)
        examples += len(test.examples)
        report: list[str] = []
        runner.run(test, out=report.append, clear_globs=False)
        names = test.globs
        assert not runner.failures, "".join(report)
    assert examples or page.stem in ("references", "suites", "validation")


@pytest.mark.parametrize("page", [*PAGES, FOLDER.parent / "README.md"], ids=str)
def test_suite_snippets_can_be_read(page, tmp_path):
    (tmp_path / "my_evaluators.py").write_text("")
    for text in blocks(page, "yaml"):
        whole = text if "suite:" in text else f"suite: x\n{text}"
        suite = parse_suite(whole, str(tmp_path / "suite.yaml"))
        assert [error.message for error in SCHEMA.iter_errors(read_document(whole).value)] == []
        assert "suite:" not in text or unused_expectations(suite) == [], "a run of a whole example can pass"


@pytest.mark.parametrize("name", BUILT_IN)
def test_every_evaluator_has_a_page_with_all_its_options(name):
    page = FOLDER / "docs" / f"{name}.md"
    assert page.read_text(encoding="utf-8").startswith(f"# {name}\n\n**")
    told = options_told(page)
    elsewhere = {"id"}  # common to all, told in suites.md
    if "(judge.md#judged-evaluators)" in page.read_text(encoding="utf-8"):
        elsewhere |= {"judge", "votes"}
    for option in fields(evaluator_class(name)):
        if option.name in elsewhere:
            continue
        assert option.name in told, f"{option.name} is not on {page.name}"
        if isinstance(option.default, bool | int | float):
            assert told[option.name].strip("` ") == str(option.default).lower()
        elif isinstance(option.default, str):
            assert told[option.name].strip("` ") == option.default
    assert blocks(page, "pycon")
    assert blocks(page, "yaml")
    assert "## When not to use it" in page.read_text(encoding="utf-8")


@pytest.mark.parametrize(("path", "text"), listed().items(), ids=lambda item: getattr(item, "name", ""))
def test_the_lists_of_evaluators_are_those_of_the_classes_and_pages(path, text):
    assert path.read_text("utf-8") == text, "run `python tests/support/evaluator_lists.py`"


def test_every_setting_of_the_judge_is_told():
    told = options_told(FOLDER / "docs" / "judge.md")
    assert {setting.name for setting in fields(JudgeSettings)} <= told.keys()
    assert told["base_url"].strip("` ") == JudgeSettings().url


def test_the_page_of_prompts_is_that_of_the_files():
    assert prompts_page.PAGE.read_text(encoding="utf-8") == prompts_page.page(), (
        "docs/prompts.md is not up to date: run `python tests/judges/prompts_page.py`"
    )
