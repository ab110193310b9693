"""The evaluators of a suite, and their plug-ins."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Annotated, Any

from ..evaluator import EvaluatorBase, Scope
from ..gates import RUN_GATES
from ..judge.settings import JudgeSettings
from ..plugins import load_plugin
from ..registry import evaluator_class, get_evaluator, named_options, option_names
from ..suite_fields import TEXT, Check, FieldError, Value, at, checked_object, choice, text
from .files import ReadContext, code_path

_FILE_OPTIONS = frozenset({"command", "folder", "judge"})


@dataclass(frozen=True, slots=True)
class EvaluatorSpec:
    """An evaluator as a suite names it. `scope` is set if it differs from the evaluator's own; `judge` if the evaluator
    is of another suite than the one it stands in (see `combined`)."""

    name: str
    options: Mapping[str, Any] = field(default_factory=dict)
    scope: Scope | None = None
    judge: JudgeSettings | None = None

    def build(self) -> EvaluatorBase:
        return get_evaluator(self.name, **self.options)


def _read(value: Any, context: ReadContext) -> EvaluatorSpec:
    """One entry of `evaluators`: `name` or `{name: options}`."""
    if isinstance(value, str):
        return _spec(text(value), {}, context)
    named = list(checked_object(value).items())
    if len(named) != 1:
        raise FieldError("expected one evaluator: its name, or {name: options}")
    ((name, options),) = named
    return at(name, lambda given: _spec(name, {} if given is None else checked_object(given), context), options)


def _spec(name: str, given: Mapping[str, Any], context: ReadContext) -> EvaluatorSpec:
    name = evaluator_class(name).name
    options = named_options(name, {option: value for option, value in given.items() if option != "scope"})
    if context.folder is None and (refused := _FILE_OPTIONS & options.keys()):
        raise FieldError(
            "may only be set in a suite file: it decides what is run, or who gets the judge's key", min(refused)
        )
    if context.folder is not None and "folder" in option_names(name) and isinstance(options.get("folder", ""), str):
        # relative to the suite; absolute, as the spec may be written into a suite elsewhere
        options["folder"] = str((context.folder / options.get("folder", "")).resolve())
    own = get_evaluator(name, **options).scope
    scope = at("scope", partial(_scope, own), given["scope"]) if "scope" in given else None
    return EvaluatorSpec(name, options, scope)


def _scope(own: Scope, value: Any) -> Scope | None:
    """The requested scope; None if it is the evaluator's own."""
    if choice(value, ("turn", "conversation")) == own:
        return None
    if own == "conversation":
        raise FieldError("this evaluator scores whole conversations, not turns")
    return "conversation"


def _write(spec: EvaluatorSpec) -> Any:
    options = {**spec.options, **({"scope": spec.scope} if spec.scope else {})}
    return {spec.name: options} if options else spec.name


def _unique_metrics(specs: Sequence[EvaluatorSpec]) -> None:
    metrics = set[str]()
    for index, spec in enumerate(specs):
        metric = spec.build().metric
        if metric in RUN_GATES:
            raise FieldError(f"{metric} is the name of a gate on the run; give the evaluator another `id`", index)
        if metric in metrics:
            raise FieldError(f"{metric} is already used; give one of the two its own `id`", index)
        metrics.add(metric)


_SPEC = Value(
    _read,
    {
        "anyOf": [TEXT, {"type": "object", "minProperties": 1, "maxProperties": 1}],
        "description": "The name of an evaluator, or {name: options}.",
    },
    _write,
    in_context=True,
)
Evaluators = Annotated[tuple[Annotated[EvaluatorSpec, _SPEC], ...], Check(_unique_metrics)]


def run_plugin(value: Any, context: ReadContext) -> tuple[Path, tuple[str, ...]]:
    """The path of the plug-in file `value`, relative to the suite, and the names of the ArkSim metrics in it.

    Raises ValueError if it fails or may not run."""
    try:
        path = code_path(text(value), context)
    except FieldError as error:
        raise FieldError(f"plug-in {error}") from None
    return path.resolve(), load_plugin(path)


_PLUGIN = Value(lambda value, context: run_plugin(value, context)[0], TEXT, str, in_context=True)
Plugins = tuple[Annotated[Path, _PLUGIN], ...]
