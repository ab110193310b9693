"""The wheels run with the lowest versions that they require, with the newest, and with other versions of Python."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import AsyncExitStack
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from a2a_tool_capture import CaptureClient
from agents.grpc_agent import grpc_agent
from deployment.containers import REPOSITORY
from support.patience import PATIENCE_S
from support.postgres_server import PostgresServer
from support.provision import ROOT, other_python
from support.proxy import Proxy

TRY = REPOSITORY / ".ci/try_wheel.py"
EXTRAS = "grpc", "postgres", "pytest"
IMPORTED = "psycopg", "a2a_eval_proxy.testing.pytest_plugin"

pytestmark = [
    pytest.mark.installs,
    pytest.mark.slow,
    pytest.mark.timeout(300),
]  # where nothing is cached, packages are downloaded


@pytest.fixture
def folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Path]:
    """Next to other environments: packages are linked, not copied, where the cache of uv is on the same disk.

    What the commands write elsewhere stays with the test."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    ROOT.mkdir(exist_ok=True)
    with TemporaryDirectory(prefix="versions-", dir=ROOT, ignore_cleanup_errors=True) as name:
        Path(name, ".git").mkdir()  # `init` writes its job at the top of a repository: not of this one
        yield Path(name)


async def serve(program: Path, folder: Path, store: str) -> None:
    """Through `serve`, one message over HTTP and one over gRPC, with telemetry of its own, which the agent refuses."""
    async with grpc_agent() as agent, AsyncExitStack() as stack:
        stack.enter_context(pytest.MonkeyPatch.context()).setenv("OTEL_EXPORTER_OTLP_ENDPOINT", agent.url)
        options = "--grpc", "127.0.0.1:0", "--store", store
        proxy = Proxy(agent.url, folder / "turns.db", *options, command=(program,))
        await asyncio.to_thread(stack.enter_context, proxy)
        for address in (proxy.url, f"grpc://{proxy.grpc_address}"):
            async with CaptureClient(address, timeout_s=PATIENCE_S) as client:
                turn = await client.send(f"chunks to {address}")
            assert [call.name for call in turn.tool_calls] == ["search", "convert"]
            stored = await asyncio.to_thread(proxy.turn_of, f"chunks to {address}")
            assert [call["name"] for call in stored["tool_calls"]] == ["search", "convert"]
        assert "telemetry failed" not in proxy.stderr()


@pytest.mark.parametrize(
    ("python", "versions"),
    [
        ("3.11", "lowest"),
        ("3.13", "newest"),  # the image has this one
        ("3.14", "newest"),
    ],
)
async def test_the_wheels_alone_do_what_the_first_page_begins_with_and_serve(
    dist: Path, python: str, versions: str, folder: Path, postgres: PostgresServer
) -> None:
    """Pairs of what .github/workflows/ci.yml has all combinations of."""
    how = "--python", other_python(python), "--versions", versions, "--installer", "uv"
    printed = try_wheel(dist, *how, "--extras", ",".join(EXTRAS), "--folder", str(folder))
    assert "scored each turn: 12 passed, 3 failed" in " ".join(printed.split())
    scripts = folder / "env/bin"
    subprocess.run([scripts / "python", "-P", "-c", f"import {', '.join(IMPORTED)}"], check=True)
    await serve(scripts / "a2a-eval-proxy", folder, postgres.new_database())


def test_the_wheel_of_the_extension_goes_beside_the_older_sdk(dist: Path) -> None:
    try_wheel(dist, "--extension-only", "--installer", "uv")


def try_wheel(dist: Path, *options: str) -> str:
    """What it prints."""
    environ = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    command = [sys.executable, TRY, dist, *options]
    done = subprocess.run(command, env=environ, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout
