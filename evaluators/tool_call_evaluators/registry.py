"""Finds evaluators by name: built-in ones, installed plug-ins, and those of plug-in files that were loaded."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, dataclass, field, fields
from functools import cache
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from pkgutil import iter_modules
from typing import Any, TypeVar, dataclass_transform

from .evaluator import FAILURES, EvaluatorBase, is_built_in
from .options import OptionError, canonical_options, or_known, snake_case

ENTRY_POINT_GROUP = "a2a_eval_proxy.evaluators"

E = TypeVar("E", bound=type[EvaluatorBase])

_registered: dict[str, type[EvaluatorBase]] = {}
"""By name."""


@cache
def _load_built_in() -> None:
    """Import the modules with the evaluators of this package, which registers them: all in two folders."""
    for folder in ("metrics", "judged"):
        package = import_module(f"{__package__}.{folder}")
        for module in iter_modules(package.__path__):
            import_module(f"{package.__name__}.{module.name}")


@dataclass_transform(frozen_default=True, kw_only_default=True, field_specifiers=(field,))
def register(cls: E) -> E:
    """Class decorator: register an evaluator under its `name`; makes it a frozen dataclass if it is not a dataclass.

    Raises OptionError if another class has that name. Registering the same class again, as a reloaded file does,
    replaces it.
    """
    if "__dataclass_fields__" not in cls.__dict__:
        dataclass(frozen=True, kw_only=True)(cls)  # in place
    if not is_built_in(cls):
        _load_built_in()
    known = _registered.get(cls.name)
    if known is not None and (known.__module__, known.__qualname__) != (cls.__module__, cls.__qualname__):
        raise OptionError(f"evaluator {cls.name}: already registered by {known.__module__}.{known.__qualname__}")
    _registered[cls.name] = cls
    return cls


def unregister(name: str) -> None:
    """Forget an evaluator that was registered under this name, such as that of a test. Raises KeyError for any other
    name."""
    del _registered[name]


def built_in_evaluators() -> dict[str, type[EvaluatorBase]]:
    """Those of this package by name, sorted. No plug-in is imported."""
    _load_built_in()
    return {name: cls for name, cls in sorted(_registered.items()) if is_built_in(cls)}


def evaluator_names() -> list[str]:
    """The names `get_evaluator` knows, sorted. Installed plug-ins are listed without being imported."""
    _load_built_in()
    return sorted({*_registered, *_installed()})


def evaluator_class(name: str) -> type[EvaluatorBase]:
    """The class of the evaluator `name`, which may be in another case or have hyphens, and may end with `Evaluator`.

    Raises OptionError with the known names, or with the error of a broken plug-in. A broken plug-in has no effect
    unless it is used.
    """
    _load_built_in()
    if name not in _registered and name not in _installed():
        word = snake_case(name)
        name = next((one for one in (word, word.removesuffix("_evaluator")) if one in evaluator_names()), name)
    if name not in _registered and (entry_point := _installed().get(name)):
        try:
            loaded = entry_point.load()  # which runs the `register` decorators
            if isinstance(loaded, type):
                register(loaded)
        except FAILURES as error:
            raise OptionError(f"plug-in {entry_point.value}: {type(error).__name__}: {error}") from error
        if name not in _registered:
            raise OptionError(
                f"plug-in {entry_point.value}: it is not an evaluator; decorate a function with @metric()"
            )
    if name not in _registered:
        raise OptionError(f"unknown evaluator {name!r}{or_known(name, evaluator_names())}")
    return _registered[name]


def get_evaluator(name: str, /, **options: Any) -> EvaluatorBase:
    """Build the evaluator `name`. Raises OptionError for an unknown name or option, or a value out of range."""
    cls = evaluator_class(name)
    options = named_options(name, options)
    for item in fields(cls):
        if item.init and item.name not in options and item.default is MISSING and item.default_factory is MISSING:
            raise OptionError(f"{name}: option {item.name} must be given", item.name)
    return cls(**options)


def named_options(name: str, given: Mapping[str, Any]) -> dict[str, Any]:
    """Options of the evaluator `name` under its own names (see `canonical_options`). Raises OptionError."""
    try:
        return canonical_options(evaluator_class(name), given)
    except OptionError as error:
        raise OptionError(f"{name}: {error}", error.option) from None


@cache
def _installed() -> dict[str, EntryPoint]:
    """Plug-ins of installed distributions: the entry point's name is the evaluator's."""
    return {entry_point.name: entry_point for entry_point in entry_points(group=ENTRY_POINT_GROUP)}
