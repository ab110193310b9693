"""What an extra installs is imported only where that extra is needed: the package works without any of them."""

from __future__ import annotations

import subprocess
import sys

OF_EXTRAS = ("agents", "grpc", "mcp", "numpy", "psycopg", "pytest", "ray", "scipy", "sqlglot")
"""Modules of the libraries that extras install, those of development too, besides the frameworks of agents."""

NEEDS_AN_EXTRA = (
    "a2a_eval_proxy.features.mcp.tools",
    "a2a_eval_proxy.testing.pytest_plugin",
    "a2a_eval_proxy.store.postgres",
    "a2a_eval_proxy.features.worker",
    "a2a_tool_capture.bridges",
    "a2a_tool_capture.connector.tracing",
)
"""Rooms and modules that may not be importable without extras."""

IMPORT_ALL = """
import importlib, pkgutil, sys
of_extras = sys.argv[1].split(",")

class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in of_extras:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Absent())
for top in ("a2a_eval_proxy", "tool_call_evaluators", "a2a_tool_capture"):
    for found in pkgutil.walk_packages(importlib.import_module(top).__path__, f"{top}."):
        try:
            if not found.name.endswith("__main__"):
                importlib.import_module(found.name)
        except ImportError as error:
            print(found.name, error, sep=": ")
"""


def test_the_rest_works_without_extras() -> None:
    command = [sys.executable, "-c", IMPORT_ALL, ",".join(OF_EXTRAS)]
    result = subprocess.run(command, capture_output=True, text=True, check=True)
    failed = [line for line in result.stdout.splitlines() if not line.startswith(NEEDS_AN_EXTRA)]
    assert failed == []
