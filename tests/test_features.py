"""Each feature can be deleted: without it, the rest imports, and serves, runs and evaluates."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import a2a_eval_proxy
import pytest
from agents.recording_agent import build_app
from agents.serving import ServerThread

PACKAGE = Path(a2a_eval_proxy.__file__).parent
FEATURES = sorted(path.name for path in (PACKAGE / "features").iterdir() if not path.name.startswith("__"))

SMOKE = '''
import asyncio, importlib, pkgutil, sys

folder, agent, gone = sys.argv[1:]
sys.path.insert(0, folder)
import a2a_eval_proxy
from a2a_eval_proxy import AgentOptions, Settings, evaluate_store, run_proxy, run_suite
from a2a_eval_proxy.cli import cli
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


@pytest.fixture(scope="module")
def agent() -> Iterator[str]:
    with ServerThread(build_app) as server:
        yield server.url


@pytest.mark.parametrize("feature", FEATURES)
def test_the_rest_works_without(feature: str, agent: str, tmp_path: Path) -> None:
    copy = tmp_path / "a2a_eval_proxy"
    shutil.copytree(PACKAGE, copy, ignore=shutil.ignore_patterns("__pycache__"))
    unwanted = copy / "features" / feature
    shutil.rmtree(unwanted) if unwanted.is_dir() else unwanted.unlink()
    command = [sys.executable, "-c", SMOKE, str(tmp_path), agent, f"a2a_eval_proxy.features.{unwanted.stem}"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
