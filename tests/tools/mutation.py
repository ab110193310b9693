"""Plants small faults in modules and counts those that tests find: `python -m tools.mutation MODULE... --tests PATH`.

A fault ("mutant") changes one expression or statement: a comparison, `and`, `not`, a number, a returned value, a
call that is left out. Only the tests that run the changed line are run, which a first run with coverage finds out. All
happens in a copy of the working tree.
"""

from __future__ import annotations

import argparse
import ast
import os
import random
import shutil
import sqlite3
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGES = ("extension", "evaluators", "proxy")
MOST_TESTS = 60
"""Of the tests that run a line, as many are run, the quickest to name first: those of few lines."""

_COMPARISONS: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
}
_LOGGING = {"debug", "info", "warning", "error", "exception", "log"}


@dataclass(frozen=True)
class Mutant:
    module: Path
    line: int
    """Counted from 1."""
    span: tuple[int, int]
    """Of the source, in bytes."""
    before: str
    after: str

    def __str__(self) -> str:
        return f"{self.module}:{self.line}: {_short(self.before)} -> {_short(self.after)}"


@dataclass
class Outcome:
    mutant: Mutant
    killed_by: str | None
    """The test that found it; None: none did."""
    tests: int
    """Tests that run the line; 0: none does."""


def mutants_of(module: Path, source: str) -> list[Mutant]:
    """Every mutant of a module, in the order of its text. Texts, annotations and messages are left as they are."""
    starts = [0]
    for line in source.encode().splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    found: list[Mutant] = []

    def add(node: ast.expr | ast.stmt, after: str) -> None:
        assert node.end_lineno is not None
        assert node.end_col_offset is not None
        span = starts[node.lineno - 1] + node.col_offset, starts[node.end_lineno - 1] + node.end_col_offset
        before = source.encode()[slice(*span)].decode()
        found.append(Mutant(module, node.lineno, span, before, after))

    for node in _walk(ast.parse(source)):
        match node:
            case ast.Compare(ops=[operator]) if type(operator) in _COMPARISONS:
                swapped = ast.Compare(node.left, [_COMPARISONS[type(operator)]()], node.comparators)
                add(node, f"({ast.unparse(swapped)})")
            case ast.BoolOp(op=operator):
                other = ast.Or() if isinstance(operator, ast.And) else ast.And()
                add(node, f"({ast.unparse(ast.BoolOp(other, node.values))})")
            case ast.UnaryOp(op=ast.Not()):
                add(node, f"({ast.unparse(node.operand)})")
            case ast.Constant(value=bool(value)):
                add(node, str(not value))
            case ast.Constant(value=int(value)):
                add(node, str(value + 1))
            case ast.BinOp(op=ast.Add() | ast.Sub() as operator):
                other_sign = ast.Sub() if isinstance(operator, ast.Add) else ast.Add()
                add(node, f"({ast.unparse(ast.BinOp(node.left, other_sign, node.right))})")
            case ast.Return(value=ast.expr() as value) if not (isinstance(value, ast.Constant) and value.value is None):
                add(node, "return None")
            case ast.Expr(value=ast.Call() | ast.Await(value=ast.Call())):
                add(node, "pass")
            case ast.Continue():
                add(node, "break")
            case ast.If(test=test) | ast.IfExp(test=test) if isinstance(test, ast.Name | ast.Attribute | ast.Call):
                add(test, f"(not {ast.unparse(test)})")
    return sorted(found, key=lambda mutant: (mutant.span, mutant.after))


def _walk(node: ast.AST) -> Iterator[ast.AST]:
    yield node
    for name, value in ast.iter_fields(node):
        if name in ("annotation", "returns", "decorator_list", "type_params"):
            continue
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.AST) and not _is_left_alone(child):
                yield from _walk(child)


def _is_left_alone(node: ast.AST) -> bool:
    """Docstrings, what is for type checkers, messages of errors and of logs."""
    match node:
        case ast.Expr(value=ast.Constant()) | ast.Raise() | ast.JoinedStr() | ast.Assert():
            return True
        case ast.If(test=ast.Name(id="TYPE_CHECKING")):
            return True
        case ast.Expr(value=ast.Call(func=ast.Attribute(attr=name))):
            return name in _LOGGING
        case ast.Assign(targets=[ast.Name(id="__all__" | "T")]):
            return True
    return False


class Tree:
    """A copy of the working tree, in which tests run."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        leave = shutil.ignore_patterns(".git", ".venv", ".envs", "__pycache__", ".*_cache", "artifacts")
        shutil.copytree(ROOT, folder, ignore=leave, dirs_exist_ok=True)
        for name in (".venv", ".envs"):
            if (ROOT / name).exists():
                (folder / name).symlink_to(ROOT / name)
        self._environ = os.environ | {
            "PYTHONPATH": os.pathsep.join(str(folder / name) for name in (*PACKAGES, "tests")),
            "PYTHONDONTWRITEBYTECODE": "1",
            "COVERAGE_CORE": "ctrace",
        }

    def pytest(self, *arguments: str, timeout_s: float) -> tuple[int, str]:
        """As `python`."""
        options = ("-q", "-p", "no:cacheprovider", "--tb=no", "--hypothesis-seed=0")
        return self.python("-m", "pytest", *options, *arguments, timeout_s=timeout_s)

    def python(self, *arguments: str, timeout_s: float) -> tuple[int, str]:
        """Returns the exit code and output of a program; a run that takes too long has failed."""
        with tempfile.TemporaryFile("w+") as output:
            process = subprocess.Popen(
                [sys.executable, *arguments],
                cwd=self.folder,
                env=self._environ,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
            try:
                code = process.wait(timeout_s)
            except subprocess.TimeoutExpired:
                code = 1
            finally:
                if process.poll() is None:
                    os.killpg(process.pid, 9)
                    process.wait()
            output.seek(0)
            return code, output.read()

    def covering(self, tests: list[str], modules: list[Path]) -> dict[tuple[Path, int], list[str]]:
        """The tests that run each line of the modules. Raises SystemExit where a test fails."""
        data = self.folder / ".coverage"
        sources = [f"--cov={self.folder / module.parent}" for module in modules]
        code, output = self.pytest(*tests, *sources, "--cov-context=test", "--cov-report=", timeout_s=3600)
        if code:
            raise SystemExit(f"the tests fail without any fault:\n{output[-3000:]}")
        found: dict[tuple[Path, int], list[str]] = {}
        with sqlite3.connect(data) as database:
            rows = database.execute(
                "select path, context, numbits from line_bits "
                "join file on file_id = file.id join context on context_id = context.id"
            )
            for path, context, bits in rows:
                module = Path(path).relative_to(self.folder)
                if module in modules:
                    for index, byte in enumerate(bits):
                        for bit in range(8):
                            if byte >> bit & 1:
                                found.setdefault((module, index * 8 + bit), []).append(context.partition("|")[0])
        weight = Counter(name for names in found.values() for name in names)
        quickest = {line: sorted({*names} - {""}, key=weight.__getitem__)[:MOST_TESTS] for line, names in found.items()}
        return {line: names or tests for line, names in quickest.items()}  # without names: run when it is imported

    def tried(self, mutant: Mutant, tests: list[str], timeout_s: float) -> Outcome:
        file = self.folder / mutant.module
        source = file.read_bytes()
        start, end = mutant.span
        file.write_bytes(source[:start] + mutant.after.encode() + source[end:])
        try:
            code, output = self.pytest("-x", *tests, timeout_s=timeout_s) if tests else (0, "")
        finally:
            file.write_bytes(source)
        if code == 0:
            return Outcome(mutant, None, len(tests))
        failed = [line for line in output.splitlines() if line.startswith(("FAILED", "ERROR"))]
        return Outcome(mutant, failed[0].split(" - ")[0].split(" ", 1)[1] if failed else "time", len(tests))


def sampled(modules: list[Path], count: int, seed: int) -> list[Mutant]:
    """So many mutants of each module, by a seed."""
    found = []
    for module in modules:
        every = mutants_of(module, (ROOT / module).read_text())
        found += random.Random(f"{seed} {module}").sample(every, min(count, len(every)))
    return found


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tools.mutation", description=__doc__)
    parser.add_argument("modules", nargs="+", type=Path, metavar="MODULE")
    parser.add_argument("--tests", nargs="+", required=True, metavar="PATH")
    parser.add_argument("--count", type=int, default=20, help="mutants of each module (20)")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--timeout", type=float, default=90, help="seconds for the tests of one mutant (90)")
    options = parser.parse_args()
    modules = [module.resolve().relative_to(ROOT) for module in options.modules]
    with tempfile.TemporaryDirectory() as folder:
        tree = Tree(Path(folder))
        covering = tree.covering(options.tests, modules)
        outcomes = []
        mutants = sampled(modules, options.count, options.seed)
        for number, mutant in enumerate(mutants, 1):
            outcome = tree.tried(mutant, covering.get((mutant.module, mutant.line), []), options.timeout)
            outcomes.append(outcome)
            verdict = "found" if outcome.killed_by else "NOT FOUND" if outcome.tests else "NOT RUN BY ANY TEST"
            print(f"{number}/{len(mutants)} {verdict}: {mutant}", flush=True)
    for module in modules:
        own = [outcome for outcome in outcomes if outcome.mutant.module == module]
        print(f"{sum(o.killed_by is not None for o in own)} of {len(own)} {module}")
    killed = sum(outcome.killed_by is not None for outcome in outcomes)
    print(f"{killed} of {len(outcomes)} found ({killed / max(1, len(outcomes)):.0%})")


def _short(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) < 70 else f"{text[:66]} ..."


if __name__ == "__main__":
    main()
