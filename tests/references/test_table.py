"""The table of the references' statements: complete, and as the markers of the tests say."""

from __future__ import annotations

from pathlib import Path

import pytest
from references.table import PAGE, Statement, markers, page, state, statements


def test_the_page_is_as_the_markers_and_the_statements_say() -> None:
    assert PAGE.read_text("utf-8") == page(statements(), markers()), "run `make references`"


def test_every_statement_has_a_number_of_its_own() -> None:
    assert [statement.number for statement in statements()] == list(range(1, 352))


def test_every_statement_has_a_test_or_a_reason() -> None:
    shown = markers()
    assert [statement.number for statement in statements() if state(statement, shown) == "open"] == []


def test_markers_name_statements_that_exist() -> None:
    numbers = {statement.number for statement in statements()}
    assert {number: tests for number, tests in markers().items() if number not in numbers} == {}


MARKED = """\
import pytest
CASES = [pytest.param(1, marks=pytest.mark.statement(4))]
@pytest.mark.statement(1, 2)
def test_one(): ...
@pytest.mark.parametrize("x", [pytest.param(1, marks=[pytest.mark.statement(3)])])
async def test_two(x): ...
@pytest.mark.parametrize("x", CASES)
def test_three(x): ...
@pytest.mark.statement(5)
class TestAll:
    @pytest.mark.statement(1)
    def test_four(self): ...
"""


def test_markers_are_found_on_functions_classes_modules_and_parameters(tmp_path: Path) -> None:
    (tmp_path / "test_a.py").write_text(MARKED, "utf-8")
    (tmp_path / "test_b.py").write_text("pytestmark = [pytest.mark.statement(6)]", "utf-8")
    (tmp_path / "helper.py").write_text("@pytest.mark.statement(7)\ndef test_no(): ...", "utf-8")
    name = f"{tmp_path.name}/test_a.py"
    assert markers(tmp_path) == {
        1: [f"{name}::TestAll::test_four", f"{name}::test_one"],
        2: [f"{name}::test_one"],
        3: [f"{name}::test_two"],
        4: [f"{name}::test_three"],
        5: [f"{name}::TestAll"],
        6: [f"{tmp_path.name}/test_b.py"],
    }


def test_a_number_that_cannot_be_read_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "test_a.py").write_text("@pytest.mark.statement(*range(3))\ndef test_one(): ...", "utf-8")
    with pytest.raises(ValueError, match=r"test_a.py:1: write statement numbers as plain numbers"):
        markers(tmp_path)


@pytest.mark.parametrize(
    "text",
    [
        "@pytest.mark.statement(8)\ndef helper(): ...",
        "CASES = [pytest.param(1, marks=pytest.mark.statement(8))]\ndef test_one(): ...",
        "def test_one():\n    @pytest.mark.statement(8)\n    def test_two(): ...",
    ],
)
def test_a_marker_of_no_test_is_an_error(tmp_path: Path, text: str) -> None:
    (tmp_path / "test_a.py").write_text(text, "utf-8")
    with pytest.raises(ValueError, match=r"test_a.py: the marker of \{8\} belongs to no test"):
        markers(tmp_path)


def test_the_page_counts_what_holds_what_is_otherwise_and_what_is_open() -> None:
    listed = [Statement(1, "One", "a | b", ""), Statement(2, "One", "b", "It is not."), Statement(3, "Two", "c", "")]
    text = page(listed, {1: ["tests/test_a.py::test_one"], 2: ["tests/test_a.py::test_two"]})
    assert "| One | 2 | 1 | 1 | 0 |\n| Two | 1 | 0 | 0 | 1 |\n| all | 3 | 1 | 1 | 1 |" in text
    assert "| 1 | a \\| b | holds | `tests/test_a.py::test_one` |" in text
    assert "| 2 | b | otherwise | It is not.<br>`tests/test_a.py::test_two` |" in text
    assert "| 3 | c | open |  |" in text
