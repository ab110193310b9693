"""The layers of the house: who may import whom, what importing costs, what the cores may not touch."""

from __future__ import annotations

import ast
import importlib
import subprocess
import sys
from pathlib import Path

import a2a_eval_proxy
import a2a_tool_capture
import a2a_tool_capture.a2e
import grimp
import pytest
import tool_call_evaluators

EXTENSION, EVALUATORS, PROXY = PACKAGES = ("a2a_tool_capture", "tool_call_evaluators", "a2a_eval_proxy")
FOLDERS = [Path(package.__file__).parent for package in (a2a_tool_capture, tool_call_evaluators, a2a_eval_proxy)]
MODULES = sorted(path for folder in FOLDERS for path in folder.rglob("*.py"))

SERVERS_AND_CLIENTS = {"a2a", "httpx", "starlette", "uvicorn", "pydantic", "google", "grpc", "opentelemetry"}
SIDE_EFFECTS = {
    "asyncio",
    "io",
    "os",
    "pathlib",
    "random",
    "secrets",
    "socket",
    "ssl",
    "subprocess",
    "threading",
    "time",
}


@pytest.fixture(scope="module")
def graph() -> grimp.ImportGraph:
    return grimp.build_graph(*PACKAGES, include_external_packages=True, cache_dir=None)


# ── layers ──────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(("lower", "higher"), [(EXTENSION, EVALUATORS), (EXTENSION, PROXY), (EVALUATORS, PROXY)])
def test_dependencies_point_one_way(graph: grimp.ImportGraph, lower: str, higher: str) -> None:
    chains = graph.find_shortest_chains(importer=lower, imported=higher, as_packages=True)
    assert not chains, f"{lower} imports {higher}: " + "; ".join(" -> ".join(chain) for chain in chains)


def test_the_higher_layers_do_use_the_lower_ones(graph: grimp.ImportGraph) -> None:
    """Lest the test above pass because nothing was found."""
    assert graph.find_shortest_chains(importer=PROXY, imported=EXTENSION, as_packages=True)
    assert graph.find_shortest_chains(importer=PROXY, imported=EVALUATORS, as_packages=True)
    assert graph.find_shortest_chains(importer=EVALUATORS, imported=EXTENSION, as_packages=True)


@pytest.mark.parametrize(
    "module",
    [
        "a2a_eval_proxy.capture",
        "a2a_eval_proxy.leakguard",
        "a2a_eval_proxy.headers",
        "a2a_eval_proxy.card",
        "a2a_eval_proxy.check.asking",
        "a2a_eval_proxy.check.interfaces",
        "a2a_eval_proxy.check.judging",
        "a2a_eval_proxy.check.model",
        "a2a_eval_proxy.check.notation",
        "a2a_eval_proxy.check.reading",
        "a2a_eval_proxy.check.silence",
        "a2a_eval_proxy.check.telling",
        "a2a_eval_proxy.cases",
        "a2a_eval_proxy.answers",
        "a2a_tool_capture.canonical",
        "a2a_tool_capture.payload",
        "a2a_tool_capture.wire",
        "a2a_tool_capture.merge",
        "a2a_tool_capture.dedupe",
        "a2a_tool_capture.dialects",
        "a2a_tool_capture.sameness",
        "a2a_tool_capture.models",
    ],
)
def test_the_cores_are_sans_io(graph: grimp.ImportGraph, module: str) -> None:
    """No clocks, sockets, threads or files: time and ids are passed in."""
    imported = imports_of(graph, module)
    assert not imported & SIDE_EFFECTS
    assert not imported & SERVERS_AND_CLIENTS


def test_the_shells_are_not(graph: grimp.ImportGraph) -> None:
    """Lest the test above pass because nothing was found."""
    assert "time" in imports_of(graph, "a2a_eval_proxy.clock")
    assert "uvicorn" in imports_of(graph, "a2a_eval_proxy.server")


def test_capture_knows_nothing_of_the_shells(graph: grimp.ImportGraph) -> None:
    inside = {"a2a_eval_proxy.capture"} | graph.find_descendants("a2a_eval_proxy.capture")
    imported = imports_of(graph, "a2a_eval_proxy.capture")
    assert {name for name in imported if name.startswith(PROXY) and name not in inside} == set()


def imports_of(graph: grimp.ImportGraph, module: str) -> set[str]:
    """What a module, or any module of a package, imports directly."""
    inside = {module} | graph.find_descendants(module)
    return {name for one in inside for name in graph.find_modules_directly_imported_by(one)}


# ── what importing costs ────────────────────────────────────────────────────────────────────────────────────


def loaded_by(statement: str) -> set[str]:
    """Modules that a fresh interpreter has after `statement`."""
    script = f"import sys; {statement}; print('\\n'.join(sys.modules))"
    result = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    return set(result.stdout.split())


@pytest.mark.parametrize("module", [EXTENSION, f"{EXTENSION}.a2e"])
def test_importing_the_extension_needs_the_standard_library_only(module: str) -> None:
    before = loaded_by("pass")
    loaded = {name.partition(".")[0] for name in loaded_by(f"import {module}") - before}
    foreign = {name for name in loaded if name not in sys.stdlib_module_names and name != EXTENSION}
    assert foreign == set()


def test_the_library_works_without_the_sdk() -> None:
    loaded = loaded_by("from a2a_tool_capture import TaskMerger; TaskMerger().feed({'task': {'id': 't'}})")
    assert not loaded & SERVERS_AND_CLIENTS


def test_the_evaluators_start_no_servers() -> None:
    assert not loaded_by("import tool_call_evaluators") & {"a2a", "starlette", "uvicorn", "grpc"}


def test_help_is_quick_to_show() -> None:
    assert not loaded_by("import a2a_eval_proxy.cli") & SERVERS_AND_CLIENTS


# ── exports, docstrings ─────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "package", [a2a_tool_capture, a2a_tool_capture.a2e, tool_call_evaluators], ids=lambda package: package.__name__
)
def test_exports_are_honest(package: object) -> None:
    names: list[str] = package.__all__  # type: ignore[attr-defined]
    assert len(set(names)) == len(names)
    for name in names:
        assert getattr(package, name) is not None


def test_the_extension_exports_what_is_public_and_nothing_else() -> None:
    tree = ast.parse(Path(a2a_tool_capture.__file__).read_text("utf-8"))
    imported = {
        alias.asname or alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.level == 1
        for alias in node.names
    }
    assert imported == set(a2a_tool_capture.__all__)
    with pytest.raises(AttributeError, match="nothing_like_that"):
        a2a_tool_capture.nothing_like_that  # noqa: B018


def test_the_contract_names_what_the_extension_exports() -> None:
    promised = (
        "URI METADATA_KEY ToolCall ToolCallSource agent_extension TaskMerger read_tool_calls reconcile CaptureClient"
    )
    assert set(promised.split()) <= set(a2a_tool_capture.__all__)


@pytest.mark.parametrize("path", MODULES, ids=lambda path: "/".join(path.parts[-2:]))
def test_every_module_says_what_it_is_for(path: Path) -> None:
    assert ast.get_docstring(ast.parse(path.read_text("utf-8")))


@pytest.mark.parametrize("package", PACKAGES)
def test_packages_are_typed(package: str) -> None:
    folder = Path(importlib.import_module(package).__file__ or "").parent
    assert (folder / "py.typed").is_file()
