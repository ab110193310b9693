"""For tests of agents: proxies inside the test process, assertions on what they captured, and the plugin of pytest.

Public: `assert_tool_calls`, `EvalProxy`, `ProxyPool`, which need no pytest. Each is imported on first use: every
session of pytest imports `pytest_plugin`, and the others import the application.
"""

from __future__ import annotations

TYPE_CHECKING = False  # that of `typing`: see the package
if TYPE_CHECKING:
    from typing import Any

    from .assertions import assert_tool_calls
    from .proxies import EvalProxy, ProxyPool

__all__ = ["EvalProxy", "ProxyPool", "assert_tool_calls"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(".assertions" if name == "assert_tool_calls" else ".proxies", __name__), name)
