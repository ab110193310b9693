"""Imports a Python file, or a module by its dotted name."""

from __future__ import annotations

import importlib
import sys
import traceback
from pathlib import Path
from types import ModuleType

from a2a_tool_capture.connector.arksim_names import names
from a2a_tool_capture.json_values import describe
from tool_call_evaluators import plugins
from tool_call_evaluators.evaluator import FAILURES
from tool_call_evaluators.options import OptionError

from ..errors import ConfigError


def load_module(source: str, setting: str) -> ModuleType:
    """The module of a path that ends with `.py`, or of a dotted name; its code runs once per process.

    Modules next to the file, or in the current directory, can be imported, and those of arksim that `arksim_names`
    serves. Raises ConfigError, which begins with `setting`.
    """
    names.install()
    is_file = source.endswith(".py")
    try:
        if is_file:
            path = Path(source).resolve()
            _make_importable(path.parent)
            return plugins.run_file(path, f"a2a_eval_agent:{path}")
        _make_importable(Path.cwd())
        return importlib.import_module(source)
    except OptionError as error:
        raise ConfigError(f"{setting}: {error}") from None
    except FAILURES as error:
        if isinstance(error, ModuleNotFoundError) and not is_file and f"{source}.".startswith(f"{error.name}."):
            raise ConfigError(f"{setting}: no module named {error.name!r} here or among the installed ones") from None
        raise ConfigError(f"{setting}: {failure(error)}") from error


def _make_importable(folder: Path) -> None:
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))


def failure(error: BaseException) -> str:
    """What an agent's code raised, and in which line; without traceback."""
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if not any(part in frame.filename for part in _NOT_OF_AGENTS)]
    where = f" ({Path(own[-1].filename).name}, line {own[-1].lineno})" if own else ""
    message = describe(error)
    return f"{type(error).__name__}{f': {message}' if message else ''}{where}"


_NOT_OF_AGENTS = ("site-packages", "importlib", str(Path(__file__).parent), str(Path(plugins.__file__).parent))
"""Parts of the names of files that are no code of an agent."""
