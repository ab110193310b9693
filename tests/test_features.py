"""Each feature can be deleted: without it, the rest imports, and serves, runs and evaluates; without one of the
extension's, the rest of the extension imports, records and captures."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import a2a_eval_proxy
import a2a_tool_capture
import pytest
from agents.recording_agent import build_app
from agents.serving import ServerThread
from support.prefork import run

PACKAGE = Path(a2a_eval_proxy.__file__).parent
FEATURES = sorted(f"features/{path.name}" for path in (PACKAGE / "features").iterdir() if path.name[:2] != "__")
ROOM_FOR_TESTS = "testing"

SMOKE = '''
import asyncio, importlib, pkgutil, sys

folder, agent, gone = sys.argv[1:]
sys.path.insert(0, folder)
for name in [name for name in sys.modules if name.partition(".")[0] == "a2a_eval_proxy"]:
    del sys.modules[name]
import a2a_eval_proxy
from a2a_eval_proxy import AgentOptions, Settings, evaluate_store, run_proxy, run_suite
from a2a_eval_proxy.cli.group import cli
from tool_call_evaluators import parse_suite

assert a2a_eval_proxy.__file__.startswith(folder)
for module in pkgutil.walk_packages(a2a_eval_proxy.__path__, "a2a_eval_proxy."):
    if not module.name.endswith("__main__"):
        try:
            importlib.import_module(module.name)
        except ModuleNotFoundError as error:  # a feature may need another one
            assert error.name.startswith(gone) and ".features." in module.name, error
assert {"serve", "run", "evaluate"} <= set(cli.commands)
suite = parse_suite("""
suite: smoke
evaluators: [tool_trajectory]
cases:
  - id: one
    turns: [{user: plain, expect: {tool_calls: [{name: search, arguments: {q: kettle}}]}}]
""")

async def main():
    store, anywhere = f"{folder}/turns.db", "127.0.0.1:0"
    settings = Settings(upstream=agent, listen=anywhere, admin=anywhere, otlp=anywhere, store=store)
    async with run_proxy(settings) as proxy:
        ran = await run_suite(suite, AgentOptions(proxy.url), store, "smoke")
    assert ran.verdict.passed, ran
    scored = await evaluate_store(suite, store, "smoke")
    assert scored.verdict.passed, scored

asyncio.run(main())
'''


EXTENSION = Path(a2a_tool_capture.__file__).parent
OF_THE_EXTENSION = ["a2e", "bridges", "connector", "dialects"]
OF_THE_EXTENSION += sorted(
    path.relative_to(EXTENSION).as_posix()
    for room in ("bridges", "dialects")
    for path in (EXTENSION / room).glob("[!_]*.py")
)

CAPTURE = """
import importlib, pkgutil, sys

folder, gone, *left = sys.argv[1:]
sys.path.insert(0, folder)
for name in [name for name in sys.modules if name.partition(".")[0] == "a2a_tool_capture"]:
    del sys.modules[name]
import a2a_tool_capture
from a2a_tool_capture import METADATA_KEY, URI, TaskMerger, ToolCallRecorder
from a2a_tool_capture.dialect import known_dialects

assert a2a_tool_capture.__file__.startswith(folder)
features = tuple("a2a_tool_capture." + room for room in ("a2e", "bridges", "connector"))
for module in pkgutil.walk_packages(a2a_tool_capture.__path__, "a2a_tool_capture."):
    try:
        importlib.import_module(module.name)
    except ImportError as error:  # a framework that is not installed; or a feature that needs another one
        ours = (error.name or "").startswith("a2a_tool_capture")
        assert module.name.startswith(features) and (not ours or error.name.startswith(gone)), error
assert [name for name in ("adk", "kagent", "traceability") if name in known_dialects()] == left

recorder, merger = ToolCallRecorder(), TaskMerger(dialects=left)
with recorder.request():
    with recorder.call("look_up", {"order": 1}) as call:
        call.result = "shipped"
    artifact = {"artifactId": "a", "parts": [{"text": "It is shipped."}], "extensions": [URI]}
    artifact["metadata"] = recorder.metadata()
merger.feed({"task": {"id": "t", "status": {"state": "TASK_STATE_COMPLETED"}, "artifacts": [artifact]}})
(seen,) = merger.tool_calls
assert (seen.name, seen.arguments, seen.result) == ("look_up", {"order": 1}, "shipped")
assert (merger.response_text, merger.findings) == ("It is shipped.", [])
"""


@pytest.mark.parametrize("feature", OF_THE_EXTENSION)
def test_the_rest_of_the_extension_works_without(feature: str, tmp_path: Path) -> None:
    left = [name for name in ("adk", "kagent", "traceability") if not f"dialects/{name}.py".startswith(feature)]
    gone = copy_without(EXTENSION, feature, tmp_path)
    run_script(CAPTURE, tmp_path, str(tmp_path), gone, *left)


@pytest.fixture(scope="module")
def agent() -> Iterator[str]:
    with ServerThread(build_app) as server:
        yield server.url


@pytest.mark.parametrize("feature", [*FEATURES, ROOM_FOR_TESTS])
def test_the_rest_works_without(feature: str, agent: str, tmp_path: Path) -> None:
    gone = copy_without(PACKAGE, feature, tmp_path)
    run_script(SMOKE, tmp_path, str(tmp_path), agent, gone)


def copy_without(package: Path, unwanted: str, folder: Path) -> str:
    """Copy a package into `folder` but for a part of it, with what was compiled of it; returns the dotted name of that
    part."""
    copy = shutil.copytree(package, folder / package.name)
    path = copy / unwanted
    shutil.rmtree(path) if path.is_dir() else path.unlink()
    return ".".join(path.relative_to(folder).with_suffix("").parts)


def run_script(text: str, folder: Path, *arguments: str) -> None:
    """In a process that has the libraries already, and imports the package from the copy."""
    script = folder / "script.py"
    script.write_text(text)
    done = run(*arguments, cwd=folder, program=script)
    assert done.returncode == 0, done.stderr
