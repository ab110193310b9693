"""Reads suites, and reports errors with their position and the accepted values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from ..registry import evaluator_names
from ..suite_fields import FieldError, SuiteFields, at, choice, kind
from ..type_conversion import adapter
from .model import Case, Expectation, ReadContext, Suite
from .yaml_document import Document, Node, SuiteError, read_document, read_text

D = TypeVar("D", bound=SuiteFields)

_EXPECTED = {"dict_type": "an object", "tuple_type": "a list"}
"""The expected value by the type of pydantic's error; our own readers raise all other errors."""


def load_suite(path: str | Path, *, allow_plugins: bool = False) -> Suite:
    """Read the suite file at `path`. Raises SuiteError if it is missing, unreadable or invalid.

    `allow_plugins`: see `parse_suite`."""
    path = Path(path)
    return parse_suite(read_text(path), str(path), allow_plugins=allow_plugins)


def parse_suite(text: str, filename: str = "suite", *, allow_plugins: bool = False) -> Suite:
    """The suite in `text`. Raises SuiteError, whose message begins with `filename` and the position.

    Files that the suite names are relative to `filename`: tool definitions, and plug-ins, which are executed. Plug-ins
    outside its directory run only with `allow_plugins`.
    """
    document = read_document(text, filename)
    suite = read_suite(document, ReadContext(Path(filename).parent, allow_plugins))
    Node(document, suite).convert(_check)
    return suite


def read_suite(document: Document, context: ReadContext) -> Suite:
    """The suite in a document, whatever its evaluators read. Raises SuiteError."""
    suite = _read(Suite, document, context)
    return replace(suite, cases=tuple(case.completed(suite) for case in suite.cases))


def parse_case(data: Mapping[str, Any], filename: str = "case") -> Case:
    """One case from its JSON form, as in the `cases` of a suite. Raises SuiteError."""
    return _read(Case, Document(data, filename), ReadContext())


def _read(declared: type[D], document: Document, context: ReadContext) -> D:
    """The value of `document`. Raises SuiteError for the first error."""
    from pydantic import ValidationError

    try:
        reader = adapter(declared)  # type: ignore[arg-type]  # a class is hashable
        value: D = reader.validate_python(document.value, context=context)
        return value
    except ValidationError as wrong:
        error: Any = wrong.errors(include_url=False)[0]
    cause = error.get("ctx", {}).get("error")
    if isinstance(cause, SuiteError):  # of another file
        raise cause
    if cause is None:
        raise document.error(f"expected {_EXPECTED[error['type']]}, got {kind(error['input'])}", error["loc"])
    path = ("gates" if step == "run_gates" else step for step in (*error["loc"], *getattr(cause, "path", ())))
    raise document.error(str(cause), tuple(path))


def _check(suite: Suite) -> None:
    """Raise FieldError for an expectation that no evaluator reads, or a gate that no result can decide."""
    for index, case in enumerate(suite.cases):
        if case.expect != Expectation() and not suite.build_evaluators("conversation", case):
            modelless = case.simulate and not (suite.simulated_user.model_options.get("model") or suite.judge.model)
            raise FieldError(
                "no evaluator scores conversations; give one `scope: conversation`, as in "
                "{tool_trajectory: {scope: conversation}}"
                + ("; and the simulated user needs a model, as in simulated_user: {model: NAME}" if modelless else ""),
                *("cases", index, "expect"),
            )
    ids = [case.id for case in suite.cases]
    for case_id in suite.quarantine:
        at("quarantine", lambda known: choice(known, ids), case_id)
    if suite.gates:
        for evaluator in (spec.build() for spec in suite.specs):
            if gate := suite.gates.get(evaluator.metric):
                at("gates", partial(at, evaluator.metric, gate.check), evaluator)


def read_kept_suite(data: Mapping[str, Any]) -> tuple[Suite, bool]:
    """The suite, and whether it is whole: evaluators of plug-ins that this process has not loaded are left out.

    Raises SuiteError.
    """
    known = {*evaluator_names()}
    is_whole = True

    def without_unknown(owner: Mapping[str, Any]) -> dict[str, Any]:
        nonlocal is_whole
        if "evaluators" not in owner:
            return dict(owner)
        found = [one for one in owner["evaluators"] if (one if isinstance(one, str) else next(iter(one))) in known]
        is_whole = is_whole and len(found) == len(owner["evaluators"])
        return {**owner, "evaluators": found}

    cases = [without_unknown(case) for case in data.get("cases", ())]
    suite = read_suite(Document({**without_unknown(data), "cases": cases}, "suite"), ReadContext(Path(), kept=True))
    return suite, is_whole
