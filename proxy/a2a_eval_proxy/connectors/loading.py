"""Imports a Python file, or a module by its dotted name."""

from __future__ import annotations

import importlib
import importlib.util
import sys
import traceback
from pathlib import Path
from types import ModuleType

from a2a_tool_capture.connector.arksim_names import names
from a2a_tool_capture.json_values import describe
from tool_call_evaluators.evaluator import FAILURES

from ..errors import ConfigError


def load_module(source: str, setting: str) -> ModuleType:
    """The module of a path that ends with `.py`, or of a dotted name; its code runs once per process.

    Modules next to the file, or in the current directory, can be imported, and those of arksim that `arksim_names`
    serves. Raises ConfigError, which begins with `setting`.
    """
    names.install()
    try:
        if source.endswith(".py"):
            return _load_file(Path(source).resolve(), setting)
        _make_importable(Path.cwd())
        return importlib.import_module(source)
    except FAILURES as error:
        if isinstance(error, ConfigError):
            raise
        if isinstance(error, ModuleNotFoundError) and source.startswith(str(error.name)):
            raise ConfigError(f"{setting}: no module named {error.name!r} here or among the installed ones") from None
        raise ConfigError(f"{setting}: {failure(error)}") from error


def _load_file(path: Path, setting: str) -> ModuleType:
    name = f"a2a_eval_agent:{path}"
    if name in sys.modules:
        return sys.modules[name]
    if not path.is_file():
        raise ConfigError(f"{setting}: there is no file {path}")
    _make_importable(path.parent)
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise ConfigError(f"{setting}: {path} is not a Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses look up their module there
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module


def _make_importable(folder: Path) -> None:
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))


def failure(error: BaseException) -> str:
    """What an agent's code raised, and in which line; without traceback."""
    frames = traceback.extract_tb(error.__traceback__)
    foreign = [frame for frame in frames if Path(frame.filename).parent != Path(__file__).parent]
    own = [frame for frame in foreign if "site-packages" not in frame.filename and "importlib" not in frame.filename]
    where = f" ({Path(own[-1].filename).name}, line {own[-1].lineno})" if own else ""
    message = describe(error)
    return f"{type(error).__name__}{f': {message}' if message else ''}{where}"
