"""Loads plug-in files: Python files with evaluators, or with custom metrics written for arksim."""

from __future__ import annotations

import importlib.util
import inspect
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType

from a2a_tool_capture.connector.arksim_names import names as arksim_names

from .evaluator import FAILURES
from .options import OptionError

_ARKSIM = f"{__package__}.arksim"
_METRICS = ("arksim", "arksim.evaluator", "arksim.evaluator.base_metric", "arksim.evaluator.thresholds")
_LLMS = ("arksim.llms", "arksim.llms.chat", "arksim.llms.chat.base", "arksim.llms.chat.base.base_llm")
arksim_names.add(dict.fromkeys(_METRICS, _ARKSIM) | dict.fromkeys(_LLMS, f"{_ARKSIM}.metrics.judge_llm"))

_METRIC_BASES = {"QuantitativeMetric": True, "QualitativeMetric": False}
"""The names of arksim's base classes, and whether their metrics have scores."""


def load_plugin(path: Path) -> tuple[str, ...]:
    """Run the Python file at `path`, which registers its evaluators, once per process.

    Every public metric class of arksim in it (`QuantitativeMetric`, `QualitativeMetric`), defined or imported, is
    registered too; the names of these are returned. Raises OptionError with the name of the file if it is missing or
    fails, or a metric cannot be created.
    """
    module_name = f"a2a_eval_plugin:{path.resolve()}"
    if module_name in sys.modules:
        return _names(sys.modules[module_name])
    try:
        with _arksim_importable(path.parent):
            module = run_file(path, module_name)
        _register_metrics(module)
    except FAILURES as error:
        sys.modules.pop(module_name, None)
        problem = str(error) if isinstance(error, OptionError) else f"{type(error).__name__}: {error}"
        raise OptionError(f"plug-in {path}: {problem}") from error
    return _names(module)


def run_file(path: Path, module_name: str) -> ModuleType:
    """The module of the Python file at `path`, which runs once per process.

    Raises OptionError without the name of the file if it is missing, and what its code raises.
    """
    if module_name in sys.modules:
        return sys.modules[module_name]
    spec = importlib.util.spec_from_file_location(module_name, path)
    if spec is None or spec.loader is None or not path.is_file():
        raise OptionError("no such Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[module_name] = module  # dataclasses look up their module there
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[module_name]
        raise
    return module


@contextmanager
def _arksim_importable(folder: Path) -> Iterator[None]:
    """Context in which the file may import arksim, installed or not, and, as in arksim, modules in its folder.

    The names of arksim stay importable in this process, for imports within functions of the file.
    """
    arksim_names.install()
    path = str(folder.resolve())
    sys.path.insert(0, path)
    try:
        yield
    finally:
        sys.path.remove(path)


_REGISTERED = "__arksim_metrics__"
"""The attribute of a loaded file with the names of its metrics."""


def _names(module: ModuleType) -> tuple[str, ...]:
    names: tuple[str, ...] = getattr(module, _REGISTERED, ())
    return names


def _register_metrics(module: ModuleType) -> None:
    names = []
    for name, found in inspect.getmembers(module, inspect.isclass):
        quantitative = _kind(found)
        if quantitative is None or name.startswith("_") or inspect.isabstract(found):
            continue
        from .arksim.metrics.metric_evaluator import register_metric  # only here: it imports pydantic

        names.append(register_metric(found, quantitative, module.__name__))
    setattr(module, _REGISTERED, tuple(names))


def _kind(found: type) -> bool | None:
    """Whether the metrics of a class have scores; None if it is no metric of arksim, or one of its base classes."""
    for base in found.__mro__[1:]:
        if base.__module__.partition(".")[0] in ("arksim", "tool_call_evaluators") and base.__name__ in _METRIC_BASES:
            return _METRIC_BASES[base.__name__]
    return None
