"""ArkSim's files as an importer: what is recognised, read and written of them, and the code that is written for it."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from types import ModuleType

from a2a_tool_capture.connector.arksim_names import names

from ...foreign import Importer
from ...plugins import ForeignCode
from ...suite.yaml_document import Document, SuiteError
from .config import CONFIG_KEYS, read_run
from .metric_evaluator import register_metric
from .run_files import ArksimFiles

_METRICS = ("arksim", "arksim.evaluator", "arksim.evaluator.base_metric", "arksim.evaluator.thresholds")
_LLMS = ("arksim.llms", "arksim.llms.chat", "arksim.llms.chat.base", "arksim.llms.chat.base.base_llm")
names.add(dict.fromkeys(_METRICS, __package__) | dict.fromkeys(_LLMS, register_metric.__module__))

_METRIC_BASES = {"QuantitativeMetric": True, "QualitativeMetric": False}
"""The names of arksim's base classes, and whether their metrics have scores."""


def _with_scenarios(document: Document, file: Path) -> Document:
    if not isinstance(document.value, dict) or "scenarios" in document.value:
        raise SuiteError("names no scenario file to replace: it is not an ArkSim configuration", document.filename)
    return replace(document, value=document.value | {"scenario_file_path": str(file.absolute())})


def _register(module: ModuleType) -> Sequence[str]:
    """Register every public metric class in a module, defined or imported there."""
    return [
        register_metric(found, quantitative, module.__name__)
        for name, found in inspect.getmembers(module, inspect.isclass)
        if (quantitative := _kind(found)) is not None and not name.startswith("_") and not inspect.isabstract(found)
    ]


def _kind(found: type) -> bool | None:
    """Whether the metrics of a class have scores; None if it is no metric of arksim, or one of its base classes."""
    for base in found.__mro__[1:]:
        if base.__module__.partition(".")[0] in ("arksim", "tool_call_evaluators") and base.__name__ in _METRIC_BASES:
            return _METRIC_BASES[base.__name__]
    return None


IMPORTER = Importer(
    files="an ArkSim configuration, its scenarios (`scenarios`)",
    recognises=lambda value: (
        isinstance(value, dict)
        and (isinstance(value.get("scenarios"), list) or any(key in value for key in CONFIG_KEYS))
    ),
    read=read_run,
    with_cases=_with_scenarios,
    run_files=ArksimFiles,
    code=ForeignCode(install=names.install, register=_register),
)
