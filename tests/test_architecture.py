"""The layers of the house: who may import whom, what importing costs, what the cores may not touch."""

from __future__ import annotations

import subprocess
import sys
from graphlib import TopologicalSorter
from pathlib import Path

import a2a_eval_proxy
import a2a_tool_capture
import a2a_tool_capture.a2e
import grimp
import pytest
import tool_call_evaluators

EXTENSION, EVALUATORS, PROXY = PACKAGES = ("a2a_tool_capture", "tool_call_evaluators", "a2a_eval_proxy")
FOLDERS = [Path(package.__file__).parent for package in (a2a_tool_capture, tool_call_evaluators, a2a_eval_proxy)]

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
    found = grimp.build_graph(*PACKAGES, include_external_packages=True, cache_dir=None)
    at_run_time = grimp.build_graph(*PACKAGES, cache_dir=None, exclude_type_checking_imports=True)
    for module in NAMES_TYPES_ABOVE:
        for imported in found.find_modules_directly_imported_by(module):
            if imported not in at_run_time.find_modules_directly_imported_by(module):
                found.remove_import(importer=module, imported=imported)
    return found


NAMES_TYPES_ABOVE = [f"{PROXY}.feature", f"{PROXY}.settings.settings"]
"""What asks features for parts: it may name their types, and those of what they are asked for, for type checkers."""


# ── layers ──────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(("lower", "higher"), [(EXTENSION, EVALUATORS), (EXTENSION, PROXY), (EVALUATORS, PROXY)])
def test_dependencies_point_one_way(graph: grimp.ImportGraph, lower: str, higher: str) -> None:
    chains = graph.find_shortest_chains(importer=lower, imported=higher, as_packages=True)
    assert not chains, f"{lower} imports {higher}: " + "; ".join(" -> ".join(chain) for chain in chains)


SANS_IO = [
    "a2a_eval_proxy.capture",
    "a2a_eval_proxy.features.graph.edges",
    "a2a_eval_proxy.net.http1_messages",
    "a2a_eval_proxy.protocol",
    "a2a_eval_proxy.features.push.notifications",
    "a2a_eval_proxy.features.push.rewriting",
    "a2a_eval_proxy.traces",
    "a2a_eval_proxy.features.check.rules",
    "a2a_eval_proxy.features.check.record",
    "a2a_eval_proxy.features.check.report",
    "a2a_eval_proxy.scoring.case_book",
    "tool_call_evaluators.simulation.user",
    "a2a_tool_capture.spans",
    "a2a_tool_capture.canonical",
    "a2a_tool_capture.artifact_calls",
    "a2a_tool_capture.wire",
    "a2a_tool_capture.merge",
    "a2a_tool_capture.reconciliation",
    "a2a_tool_capture.dialect",
    "a2a_tool_capture.dialects",
    "a2a_tool_capture.generations",
    "a2a_tool_capture.same_call",
    "a2a_tool_capture.models",
]


def test_the_cores_are_sans_io(graph: grimp.ImportGraph) -> None:
    """No clocks, sockets, threads or files: time and ids are passed in."""
    shells = {module: imports_of(graph, module) & (SIDE_EFFECTS | SERVERS_AND_CLIENTS) for module in SANS_IO}
    assert {module: imported for module, imported in shells.items() if imported} == {}


def imports_of(graph: grimp.ImportGraph, module: str) -> set[str]:
    """What a module, or any module of a package, imports directly."""
    inside = {module} | graph.find_descendants(module)
    return {name for one in inside for name in graph.find_modules_directly_imported_by(one)}


# ── rooms ───────────────────────────────────────────────────────────────────────────────────────────────────

LAYERS = {
    PROXY: [  # the highest first; those in one line do not import each other
        "__main__",
        "features",
        "testing",
        "cli",
        "app",
        "proxy_control",
        "agent_line",
        "admin | serving",
        "runs",
        "scoring",
        "grpc_relay",
        "relay",
        "otlp",
        "net",
        "telemetry",
        "store",
        "settings | traces",
        "capture | privacy",
        "protocol",
        "body_memory | clock | errors | feature | ids | memory | signals | threads | turn",
    ],
    f"{PROXY}.features.check": [
        "feature",
        "report",
        "rules",
        "dialogue",
        "client",
        "record",
    ],
    EVALUATORS: [
        "experiments",
        "importers",
        "foreign",
        "report",
        "outcomes",
        "suite",
        "plugins",
        "simulation",
        "metrics",
        "judged",
        "registry",
        "verdict",
        "agent_tree | gates",
        "agent_trace | behavior_failures | evaluator | judge | matching | visibility",
        "model | type_conversion",
        "resources",
        "suite_fields",
        "attempts | grouping | options | texts | tool_classes",
    ],
    f"{EVALUATORS}.importers": ["arksim | dokimos | google_adk | uipath"],
    EXTENSION: [
        "connector",
        "bridges | client",
        "agent_connection",
        "a2e | agent | dialects | merge | spans",
        "function_parts",
        "card_search | client_tls | dialect | environment_proxies | secret_references",
        "approvals | artifact_calls | errors | reconciliation | recorder",
        "same_call",
        "extension_filter | models",
        "wire",
        "canonical | generations | json_values | recent | spec | token_usage",
        "json_limits",
    ],
}
"""The rooms and single modules of each package: one may import only what stands in a lower line. A room whose parts
stand in several lines is named by its parts."""


@pytest.mark.parametrize("package", LAYERS)
def test_no_import_leads_back_up(graph: grimp.ImportGraph, package: str) -> None:
    """Imports inside functions and those for type checkers count, too."""
    layers = [{name.strip() for name in line.split("|")} for line in LAYERS[package]]
    named = set().union(*layers)
    apart = {f"{package}.{name.partition('.')[0]}" for name in named if "." in name}
    children = {child for room in {package, *apart} for child in graph.find_children(room)} - apart
    inside = {child.removeprefix(f"{package}.") for child in children}
    assert named == inside, "each room and module of the package stands in LAYERS"
    found = graph.find_illegal_dependencies_for_layers(
        layers=[grimp.Layer(*layer, independent=True) for layer in layers], containers={package}
    )
    assert not found, "\n".join(f"{one.importer} must not import {one.imported}" for one in found)


PAGE = FOLDERS[-1].parent / "docs/architecture.md"
BEGIN, END = "<!-- layers: python tests/test_architecture.py -->\n", "<!-- /layers -->"


def layers_in_markdown() -> str:
    """The layers of the three packages, high to low."""
    parts = []
    for package in reversed(PACKAGES):
        rows = [" · ".join(f"`{name.strip()}`" for name in line.split("|")) for line in LAYERS[package]]
        parts.append(f"`{package}`:\n\n" + "".join(f"{number}. {row}\n" for number, row in enumerate(rows, 1)))
    return "\n" + "\n".join(parts) + "\n"


def test_the_page_shows_the_layers() -> None:
    shown = PAGE.read_text("utf-8").partition(BEGIN)[2].partition(END)[0]
    assert shown == layers_in_markdown(), "run `python tests/test_architecture.py`"


def test_no_modules_import_each_other_in_a_circle(graph: grimp.ImportGraph) -> None:
    ours = {name for name in graph.modules if name.partition(".")[0] in PACKAGES}
    TopologicalSorter({name: graph.find_modules_directly_imported_by(name) & ours for name in ours}).prepare()


@pytest.mark.parametrize("package", PACKAGES)
def test_nothing_inside_imports_the_face_of_its_package(graph: grimp.ImportGraph, package: str) -> None:
    importers = graph.find_modules_that_directly_import(package)
    assert {name for name in importers if name.partition(".")[0] == package} == set()


@pytest.mark.parametrize(
    ("package", "rooms"),
    [
        (PROXY, ["features"]),
        (EVALUATORS, ["importers"]),
        (EXTENSION, ["a2e", "bridges", "connector", "dialects"]),
    ],
)
def test_nothing_imports_a_feature_but_features(graph: grimp.ImportGraph, package: str, rooms: list[str]) -> None:
    """So that each can be deleted. What another package imports goes with the feature there that does."""
    inside = tuple(f"{package}.{room}." for room in rooms)
    entered = {
        f"{importer} imports {module}"
        for module in graph.modules
        if f"{module}.".startswith(inside) and module != f"{EVALUATORS}.importers"  # which reads with what is there
        for importer in graph.find_modules_that_directly_import(module)
        if importer.startswith(package) and not f"{importer}.".startswith(inside)
    }
    assert all(graph.find_children(room.rstrip(".")) for room in inside)
    assert entered == set()


# ── what importing costs ────────────────────────────────────────────────────────────────────────────────────


def loaded_by(statement: str) -> set[str]:
    """Modules that a fresh interpreter has after `statement`."""
    script = f"import sys; {statement}; print('\\n'.join(sys.modules))"
    result = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    return set(result.stdout.split())


@pytest.mark.parametrize("module", [EXTENSION, f"{EXTENSION}.a2e", f"{EXTENSION}.connector"])
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


# ── types ───────────────────────────────────────────────────────────────────────────────────────────────────


def test_packages_are_typed() -> None:
    assert [folder for folder in FOLDERS if not (folder / "py.typed").is_file()] == []


if __name__ == "__main__":
    before, _, rest = PAGE.read_text("utf-8").partition(BEGIN)
    PAGE.write_text(before + BEGIN + layers_in_markdown() + END + rest.partition(END)[2], "utf-8")
