"""The package exports one flat list, and the list is honest."""

from __future__ import annotations

import ast
from pathlib import Path

import tool_call_evaluators


def test_all_names_exactly_what_is_imported():
    source = Path(tool_call_evaluators.__file__).read_text(encoding="utf-8")
    imported = [
        alias.asname or alias.name
        for node in ast.parse(source).body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    ]
    assert sorted(tool_call_evaluators.__all__) == sorted(imported)
    assert all(hasattr(tool_call_evaluators, name) for name in tool_call_evaluators.__all__)
