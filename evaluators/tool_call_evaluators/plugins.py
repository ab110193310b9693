"""Loads plug-in files: Python files with evaluators, or with those of another tool."""

from __future__ import annotations

import importlib.util
import pkgutil
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

from .evaluator import FAILURES
from .options import OptionError

_TOOLS = Path(__file__).parent / "importers"


@dataclass(frozen=True, kw_only=True)
class ForeignCode:
    """Lets Python files that are written for another tool run here."""

    install: Callable[[], None]
    """Makes the names of the tool importable in this process, installed or not."""
    register: Callable[[ModuleType], Sequence[str]]
    """Registers the evaluators of the tool in a module, and returns their names. Raises OptionError."""


def tool_names() -> list[str]:
    """The names of the tools whose files are imported, without importing any."""
    return [module.name.replace("_", "-") for module in pkgutil.iter_modules([str(_TOOLS)])]


@cache
def foreign_tools() -> Mapping[str, ModuleType]:
    """The importers of the files of other tools, by the names of these: each has an `IMPORTER` (see `foreign`)."""
    found = ((one.name, ".importer" * one.ispkg) for one in pkgutil.iter_modules([str(_TOOLS)]))
    return {
        name.replace("_", "-"): importlib.import_module(f".importers.{name}{inside}", __package__)
        for name, inside in found
    }


def _foreign_code() -> list[ForeignCode]:
    return [module.IMPORTER.code for module in foreign_tools().values() if module.IMPORTER.code]


def load_plugin(path: Path) -> tuple[str, ...]:
    """Run the Python file at `path`, which registers its evaluators, once per process.

    Those that it has for other tools, such as arksim's metrics, are registered too; the names of these are returned.
    Raises OptionError with the name of the file if it is missing or fails, or one cannot be created.
    """
    module_name = _module_name(path)
    if module_name not in sys.modules:
        try:
            with _importable(path.parent):
                module = run_file(path, module_name)
            module.__dict__[_REGISTERED] = tuple(name for code in _foreign_code() for name in code.register(module))
        except FAILURES as error:
            sys.modules.pop(module_name, None)
            problem = str(error) if isinstance(error, OptionError) else f"{type(error).__name__}: {error}"
            raise OptionError(f"plug-in {path}: {problem}") from error
    names: tuple[str, ...] = getattr(sys.modules[module_name], _REGISTERED, ())
    return names


def plugin_function(path: Path, name: str) -> Callable[..., Any]:
    """The function of that name in the Python file at `path`, which is loaded as `load_plugin` does. Raises
    OptionError."""
    load_plugin(path)
    function = getattr(sys.modules[_module_name(path)], name, None)
    if not callable(function):
        raise OptionError(f"{path} has no function {name}")
    return function  # type: ignore[no-any-return]  # of a file


_REGISTERED = "__foreign_evaluators__"
"""The attribute of a loaded file with the names of its evaluators for other tools."""


def _module_name(path: Path) -> str:
    return f"a2a_eval_plugin:{path.resolve()}"


def install_foreign_names() -> None:
    """Make what files for other tools import available in this process, for imports within functions, too."""
    for code in _foreign_code():
        code.install()


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
def _importable(folder: Path) -> Iterator[None]:
    """Context in which a file may import modules in its folder, and those of other tools."""
    install_foreign_names()
    path = str(folder.resolve())
    sys.path.insert(0, path)
    try:
        yield
    finally:
        sys.path.remove(path)
