"""The proxy runs with the lowest versions that it says it needs, with the newest, and with other versions of Python,
also installed from its wheels without a checkout."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import tomllib
from collections.abc import Callable, Iterator
from contextlib import AsyncExitStack
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from a2a_tool_capture import CaptureClient
from agents.grpc_agent import grpc_agent
from deployment.containers import REPOSITORY
from packaging.requirements import Requirement
from support.patience import PATIENCE_S
from support.postgres_server import PostgresServer
from support.provision import ROOT, other_python, resolved_python
from support.proxy import Proxy

EXTRAS = "grpc", "postgres", "pytest", "signing"
IMPORTED = "psycopg", "procrastinate", "jwt", "rfc8785", "a2a_eval_proxy.pytest_plugin"

pytestmark = [
    pytest.mark.installs,
    pytest.mark.slow,
    pytest.mark.timeout(300),
]  # where nothing is cached, packages are downloaded


def required() -> list[Requirement]:
    """The direct requirements of the proxy and of `EXTRAS`."""
    content = tomllib.loads((REPOSITORY / "pyproject.toml").read_text("utf-8"))
    extras = content["project"]["optional-dependencies"]
    lines: list[str] = content["tool"]["hatch"]["metadata"]["hooks"]["custom"]["dependencies"]
    return [Requirement(line) for line in [*lines, *(line for name in EXTRAS for line in extras[name])]]


def lowest(requirement: Requirement) -> str:
    """The requirement of exactly its lowest version, which has to exist."""
    (floor,) = [one.version for one in requirement.specifier if one.operator == ">="]
    pinned = Requirement(str(requirement))
    pinned.specifier &= f"=={floor}"
    return str(pinned)


@pytest.fixture
def folder() -> Iterator[Path]:
    """Next to other environments: packages are linked, not copied, where the cache of uv is on the same disk."""
    ROOT.mkdir(exist_ok=True)
    with TemporaryDirectory(prefix="versions-", dir=ROOT, ignore_cleanup_errors=True) as name:
        yield Path(name)


@pytest.fixture(autouse=True)
def _checkout(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """What is under test is this checkout, and what it writes stays with the test."""
    roots = ":".join(str(REPOSITORY / name) for name in ("extension", "evaluators", "proxy"))
    monkeypatch.setenv("PYTHONPATH", roots)
    monkeypatch.setenv("TMPDIR", str(tmp_path))


def demonstrate(python: Path) -> None:
    done = subprocess.run([python, "-m", "a2a_eval_proxy", "demo"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "scored each turn: 12 passed, 3 failed" in " ".join(done.stdout.split())


async def serve(python: Path, store: Path, *arguments: str) -> None:
    """Through `serve`, one message over HTTP and one over gRPC, with telemetry of its own, which the agent refuses."""
    async with grpc_agent() as agent, AsyncExitStack() as stack:
        stack.enter_context(pytest.MonkeyPatch.context()).setenv("OTEL_EXPORTER_OTLP_ENDPOINT", agent.url)
        proxy = Proxy(agent.url, store, *arguments, command=(python, "-m", "a2a_eval_proxy"))
        await asyncio.to_thread(stack.enter_context, proxy)
        for address in (proxy.url, f"grpc://{proxy.grpc_address}"):
            async with CaptureClient(address, timeout_s=PATIENCE_S) as client:
                turn = await client.send(f"chunks to {address}")
            assert [call.name for call in turn.tool_calls] == ["search", "convert"]
            stored = await asyncio.to_thread(proxy.turn_of, f"chunks to {address}")
            assert [call["name"] for call in stored["tool_calls"]] == ["search", "convert"]
        assert "telemetry failed" not in proxy.stderr()


@pytest.mark.parametrize("version", [lowest, str])
async def test_with_the_lowest_and_the_newest_versions(
    version: Callable[[Requirement], str], folder: Path, tmp_path: Path, postgres: PostgresServer
) -> None:
    python = resolved_python(folder, map(version, required()))
    subprocess.run([python, "-c", f"import {', '.join(IMPORTED)}"], check=True)
    options = "--grpc", "127.0.0.1:0", "--store", postgres.new_database()
    await asyncio.gather(asyncio.to_thread(demonstrate, python), serve(python, tmp_path / "turns.db", *options))


TRY = REPOSITORY / ".ci/try_wheel.py"


@pytest.mark.parametrize(
    ("python", "versions", "installer"),
    [
        ("3.11", "lowest", "uv"),
        ("3.12", "newest", "uv"),
        ("3.13", "newest", "pip"),  # the image has this one
        ("3.14", "newest", "uv"),
    ],
)
def test_the_wheels_alone_do_what_the_first_page_begins_with(
    dist: Path, python: str, versions: str, installer: str
) -> None:
    try_wheel(dist, "--python", other_python(python), "--versions", versions, "--installer", installer)


def test_the_wheel_of_the_extension_goes_beside_the_older_sdk(dist: Path) -> None:
    try_wheel(dist, "--extension-only", "--installer", "uv")


def try_wheel(dist: Path, *options: str) -> None:
    environ = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    command = [sys.executable, TRY, dist, *options]
    done = subprocess.run(command, env=environ, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
