"""Serves names of arksim where arksim is not installed, so that files written for it load as they are."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

_ROOM = __name__.rpartition(".")[0]


class ArksimNames(Loader, MetaPathFinder):
    """Finds arksim's modules after every other finder: an installed arksim takes precedence."""

    def __init__(self, modules: Mapping[str, str]) -> None:
        self._modules = {name: [ours] for name, ours in modules.items()}

    def add(self, modules: Mapping[str, str]) -> None:
        """Names of arksim's modules, and our module that has the names of each in addition to those it had."""
        for name, ours in modules.items():
            if ours not in self._modules.setdefault(name, []):
                self._modules[name].append(ours)

    def install(self) -> None:
        """Serve the names in this process from now on."""
        if self not in sys.meta_path:
            sys.meta_path.append(self)

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        root = sys.modules.get("arksim")
        foreign = root is not None and getattr(root, "__loader__", None) is not self
        return ModuleSpec(fullname, self, is_package=True) if fullname in self._modules and not foreign else None

    def exec_module(self, module: ModuleType) -> None:
        """Give the module the names of ours when they are first used."""
        ours = self._modules[module.__name__]

        def named(name: str) -> Any:
            for candidate in () if name.startswith("__") else ours:
                loaded = import_module(candidate)
                if name in getattr(loaded, "__all__", ()) or name in vars(loaded):
                    return getattr(loaded, name)
            raise AttributeError(
                f"{module.__name__} is served by a2a-eval-proxy, because arksim is not installed; it has no {name}"
            )

        module.__getattr__ = named  # type: ignore[method-assign]  # PEP 562


names = ArksimNames(
    {
        "arksim": _ROOM,
        "arksim.config": _ROOM,
        "arksim.simulation_engine": _ROOM,
        "arksim.simulation_engine.agent": _ROOM,
        "arksim.simulation_engine.agent.base": _ROOM,
        "arksim.simulation_engine.tool_types": _ROOM,
        "arksim.tracing": f"{_ROOM}.tracing",
        "arksim.tracing.openai": f"{_ROOM}.tracing",
    }
)
"""Of this process; other packages `add` theirs."""
