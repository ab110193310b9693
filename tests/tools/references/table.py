"""What the reference documents state, with the tests that show it.

`statements.yaml` contains the statements. A test names those it shows, `@pytest.mark.statement(14, 15)`: a function, a
class, a parameter set or, as `pytestmark`, a module. The markers are read from the source, without importing the
tests. `make references` (`PYTHONPATH=tests python -m tools.references.table`) prints them.
"""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import yaml

TESTS = Path(__file__).parents[2]
STATEMENTS = Path(__file__).with_name("statements.yaml")

INTRODUCTION = """\
# The references, statement by statement

This project implements five documents of other projects. Below is each of their statements, in our words, with the
tests that show that it holds here, or with what is otherwise here and why.
"""


class Statement(NamedTuple):
    """One statement. `differs` is the reason why it does not hold as stated, empty where it does."""

    number: int
    document: str
    text: str
    differs: str


def statements(path: Path = STATEMENTS) -> list[Statement]:
    documents = yaml.safe_load(path.read_text("utf-8"))
    return [
        Statement(number, document, entry["text"], entry.get("differs", ""))
        for document, entries in documents.items()
        for number, entry in entries.items()
    ]


def markers(tests: Path = TESTS) -> dict[int, list[str]]:
    """The tests by the number of each statement that they show, for example `tests/test_x.py::TestX::test_y`."""
    found = defaultdict(set)
    for path in sorted(tests.rglob("test_*.py")):
        text = path.read_text("utf-8")
        if "mark.statement" in text:
            name = path.relative_to(tests.parent).as_posix()
            module = ast.parse(text, name)
            marks = set(_marks(module, name))
            if lost := set(_numbers(module, name)) - {number for _, number in marks}:
                raise ValueError(f"{name}: the marker of {lost} belongs to no test")
            for test, number in marks:
                found[number].add(test)
    return {number: sorted(found[number]) for number in sorted(found)}


def _marks(module: ast.Module, name: str) -> Iterator[tuple[str, int]]:
    """Each marked test with a number; parameter sets that several tests share count for each of them."""
    shared: dict[str, list[int]] = {}
    for node in module.body:
        if isinstance(node, ast.Assign | ast.AnnAssign):
            target = node.targets[0] if isinstance(node, ast.Assign) else node.target
            if isinstance(target, ast.Name):
                shared[target.id] = list(_numbers(node, name))
    yield from ((name, number) for number in shared.pop("pytestmark", ()))
    yield from _marks_in(module.body, name, name, shared)


def _marks_in(body: list[ast.stmt], prefix: str, name: str, shared: dict[str, list[int]]) -> Iterator[tuple[str, int]]:
    for node in body:
        is_definition = isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
        if is_definition and node.name.lower().startswith("test"):
            test = f"{prefix}::{node.name}"
            for decorator in node.decorator_list:
                names = {part.id for part in ast.walk(decorator) if isinstance(part, ast.Name)}
                for number in (*_numbers(decorator, name), *(n for used in names for n in shared.get(used, ()))):
                    yield test, number
            if isinstance(node, ast.ClassDef):
                yield from _marks_in(node.body, test, name, shared)


def _numbers(tree: ast.AST, name: str) -> Iterator[int]:
    """The numbers of the markers in a part of a module.

    Raises:
        ValueError: a number is not written as one.
    """
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "pytest.mark.statement":
            for argument in node.args:
                if not (isinstance(argument, ast.Constant) and type(argument.value) is int):
                    raise ValueError(
                        f"{name}:{argument.lineno}: write statement numbers as plain numbers: statement(14, 15)"
                    )
                yield argument.value


def page(listed: list[Statement], shown: dict[int, list[str]]) -> str:
    """The page in Markdown: counts of each document, then a table of each, one line per statement."""
    documents: dict[str, list[Statement]] = defaultdict(list)
    for statement in listed:
        documents[statement.document].append(statement)
    lines = [INTRODUCTION, "| document | statements | hold | otherwise | open |", "|---|---:|---:|---:|---:|"]
    for document, entries in [*documents.items(), ("all", listed)]:
        states = [state(entry, shown) for entry in entries]
        counts = " | ".join(str(states.count(one)) for one in ("holds", "otherwise", "open"))
        lines.append(f"| {document} | {len(entries)} | {counts} |")
    for document, entries in documents.items():
        lines += [
            "",
            f"## {document}",
            "",
            "| # | statement | here | test, or what is otherwise and why |",
            "|---:|---|---|---|",
        ]
        for entry in entries:
            tests = [f"`{test}`" for test in shown.get(entry.number, ())]
            evidence = "<br>".join(([entry.differs] if entry.differs else []) + tests)
            lines.append(f"| {entry.number} | {_cell(entry.text)} | {state(entry, shown)} | {_cell(evidence)} |")
    return "\n".join(lines) + "\n"


def state(statement: Statement, shown: dict[int, list[str]]) -> str:
    if statement.differs:
        return "otherwise"
    return "holds" if statement.number in shown else "open"


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


if __name__ == "__main__":
    print(page(statements(), markers()))
