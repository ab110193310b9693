"""Evaluation proxy and sidecar for A2A agents.

The names in `__all__` and `a2a_eval_proxy.testing` are the public API; every other module may change. Each name is
imported on first use, since the command line and the pytest plugin import this package and need none of them.

Inside, `turn`, `clock`, `errors` and `ids` import nothing and may be imported everywhere; the layers of the other rooms
are in the architecture test.
"""

from __future__ import annotations

TYPE_CHECKING = False  # that of `typing`: a command imports this package before it has said what Ctrl-C does
if TYPE_CHECKING:
    from typing import Any

    from .app import RunningProxy, run_proxy
    from .errors import ConfigError
    from .runs.compare import compare_runs
    from .runs.drive import AgentOptions, run_suite
    from .runs.rescore import evaluate_store
    from .runs.run_plan import publish_report
    from .runs.stored_turns import write_turns
    from .settings.settings import Settings
    from .store import StoreError

_MODULES = {
    "AgentOptions": "runs.drive",
    "ConfigError": "errors",
    "RunningProxy": "app",
    "Settings": "settings.settings",
    "StoreError": "store",
    "compare_runs": "runs.compare",
    "evaluate_store": "runs.rescore",
    "publish_report": "runs.run_plan",
    "run_proxy": "app",
    "run_suite": "runs.drive",
    "write_turns": "runs.stored_turns",
}

__all__ = [
    "AgentOptions",
    "ConfigError",
    "RunningProxy",
    "Settings",
    "StoreError",
    "compare_runs",
    "evaluate_store",
    "publish_report",
    "run_proxy",
    "run_suite",
    "write_turns",
]


def __getattr__(name: str) -> Any:
    """A public name, or `__version__`, which both distributions share."""
    from importlib import import_module

    if name == "__version__":
        return import_module("a2a_tool_capture").__version__
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f".{_MODULES[name]}", __name__), name)
