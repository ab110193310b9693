"""Two distributions with one version: built once, installed with agents, run with the lowest versions they allow."""

from __future__ import annotations

import asyncio
import email
import re
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from contextlib import AsyncExitStack
from email.message import Message
from pathlib import Path
from tempfile import TemporaryDirectory

import a2a_tool_capture
import pytest
from a2a_eval_proxy.features.check.rules import CheckVerdict
from a2a_tool_capture import CaptureClient
from agents.grpc_agent import grpc_agent
from deployment.containers import DEPLOY, REPOSITORY
from e2e.authors.served import PROGRAM
from packaging.requirements import Requirement
from support.checking import check
from support.patience import PATIENCE_S
from support.postgres_server import PostgresServer
from support.processes import ChildProcess
from support.provision import PINS, ROOT, UnavailableError, other_python, python_environment, python_with
from support.proxy import Proxy

pytestmark = [pytest.mark.installs, pytest.mark.about("hatch_build.py", ".ci", "extension/pyproject.toml")]

TRY = REPOSITORY / ".ci/try_wheel.py"
EXTRAS = "grpc,postgres,pytest"
VERSION = a2a_tool_capture.__version__
PIN = Requirement(f"a2a-tool-capture=={VERSION}")

WITHOUT_DEPENDENCIES = """
import importlib, importlib.metadata, sys
for name in sys.argv[1:]:
    importlib.import_module(name)
print(importlib.metadata.packages_distributions()["a2a_tool_capture"])
"""
REFUSED = """
import sys, a2a_tool_capture
try:
    getattr(a2a_tool_capture, sys.argv[1])
except ImportError as error:
    print(error)
"""
STANDARD_LIBRARY_ONLY = [
    "a2a_tool_capture",
    "a2a_tool_capture.a2e",
    "a2a_tool_capture.bridges.mcp",
    "a2a_tool_capture.dialects.adk",
    "a2a_tool_capture.agent.asgi_gate",
    "a2a_tool_capture.secret_references",
    "a2a_tool_capture.recorder",
]


@pytest.fixture(scope="module")
def dist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the wheels of both distributions, as they are published."""
    try:
        hatchling = python_with(DEPLOY / "build-requirements.txt")
    except UnavailableError as reason:
        pytest.skip(str(reason))
    folder = tmp_path_factory.mktemp("dist")
    for source in (REPOSITORY, REPOSITORY / "extension"):
        command = [hatchling, "-m", "hatchling", "build", "--target", "wheel", "--directory", folder]
        subprocess.run(command, cwd=source, check=True, capture_output=True, text=True)
    return folder


def wheel_of(dist: Path, package: str) -> Path:
    (wheel,) = dist.glob(f"{package}-*.whl")
    return wheel


def metadata_of(wheel: Path) -> Message:
    with zipfile.ZipFile(wheel) as content:
        (name,) = (name for name in content.namelist() if name.endswith(".dist-info/METADATA"))
        return email.message_from_bytes(content.read(name))


def requirements_of(wheel: Path) -> list[Requirement]:
    return [Requirement(text) for text in metadata_of(wheel).get_all("Requires-Dist", [])]


def overlay(folder: Path, below: Path, *requirements: str) -> Path:
    """The interpreter of an environment in `folder` that also sees all of `below`, with `requirements` in it.

    Nothing is downloaded: what is required has to be there.
    """
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
    python = folder / "bin" / "python"
    seen = subprocess.run(
        [below, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"],
        check=True,
        capture_output=True,
        text=True,
    )
    (site,) = (folder / "lib").glob("python*/site-packages")
    (site / "below.pth").write_text(f"import site; site.addsitedir({seen.stdout.strip()!r})\n", "utf-8")
    install(python, *requirements)
    return python


def install(python: Path, *options: str) -> None:
    command = [sys.executable, "-m", "pip", "--python", str(python), "install", "--quiet", "--no-index", "--no-compile"]
    done = subprocess.run([*command, *options], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def printed(program: str | Path, *arguments: str | Path) -> str:
    done = subprocess.run([program, *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout.strip()


# ── what is in them ─────────────────────────────────────────────────────────────────────────────────────────


def test_each_package_is_in_one_of_them(dist: Path) -> None:
    packages = {}
    for name in ("a2a_tool_capture", "a2a_eval_proxy"):
        with zipfile.ZipFile(wheel_of(dist, name)) as content:
            roots = {entry.partition("/")[0] for entry in content.namelist()}
        packages[name] = {root for root in roots if not root.endswith(".dist-info")}
    assert packages == {
        "a2a_tool_capture": {"a2a_tool_capture"},
        "a2a_eval_proxy": {"a2a_eval_proxy", "tool_call_evaluators"},
    }


@pytest.mark.parametrize("name", ["a2a_tool_capture", "a2a_eval_proxy"])
def test_version_and_license_are_told(dist: Path, name: str) -> None:
    wheel = wheel_of(dist, name)
    metadata = metadata_of(wheel)
    assert metadata["Version"] == VERSION
    assert metadata["License-Expression"] == "Apache-2.0"
    assert metadata.get_all("License-File") == ["LICENSE", "NOTICE"]
    with zipfile.ZipFile(wheel) as content:
        (text,) = (content.read(entry) for entry in content.namelist() if entry.endswith("licenses/LICENSE"))
    assert text == (REPOSITORY / "LICENSE").read_bytes()
    assert b"TERMS AND CONDITIONS FOR USE, REPRODUCTION, AND DISTRIBUTION" in text


def test_the_extension_requires_nothing(dist: Path) -> None:
    assert all(requirement.marker for requirement in requirements_of(wheel_of(dist, "a2a_tool_capture")))


def test_the_proxy_requires_the_extension_in_its_version_and_names_no_folder(dist: Path) -> None:
    requirements = requirements_of(wheel_of(dist, "a2a_eval_proxy"))
    assert [item for item in requirements if item.name == PIN.name and not item.marker] == [PIN]
    assert not [item for item in requirements if item.url]


def test_every_bridge_is_an_extra_of_both(dist: Path) -> None:
    extras = {
        extra
        for extra in metadata_of(wheel_of(dist, "a2a_tool_capture")).get_all("Provides-Extra", [])
        if extra not in ("a2a-sdk", "grpc", "otel")  # the proxy requires these, or has its own
    }
    assert extras
    passed_on = {
        next(iter(item.extras)): str(item.marker)
        for item in requirements_of(wheel_of(dist, "a2a_eval_proxy"))
        if item.name == PIN.name and item.marker
    }
    assert passed_on == {extra: f'extra == "{extra}"' for extra in extras}


# ── with agents ─────────────────────────────────────────────────────────────────────────────────────────────


def test_the_extension_alone_needs_the_standard_library_only(dist: Path, tmp_path: Path) -> None:
    python = tmp_path / "bin" / "python"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", tmp_path], check=True)
    install(python, str(wheel_of(dist, "a2a_tool_capture")))
    told = printed(python, "-c", WITHOUT_DEPENDENCIES, *STANDARD_LIBRARY_ONLY)
    assert told == "['a2a-tool-capture']"
    why = "CapturingRequestHandler needs a2a-sdk, which is not installed: pip install 'a2a-tool-capture[a2a-sdk]'"
    assert printed(python, "-c", REFUSED, "CapturingRequestHandler").startswith(why)


@pytest.mark.timeout(300)
async def test_the_extension_goes_beside_the_older_sdk_that_a_framework_needs(dist: Path, tmp_path: Path) -> None:
    """Installed from its wheel, it serves an agent of that framework, which conforms."""
    wheel = wheel_of(dist, "a2a_tool_capture")
    python = overlay(tmp_path, python_environment("strands"), f"a2a-tool-capture[a2a-sdk,strands] @ {wheel.as_uri()}")
    look = (
        "import importlib.metadata as m; from a2a_tool_capture import CapturingRequestHandler;"
        "print(m.version('a2a-sdk'), m.packages_distributions()['a2a_tool_capture'])"
    )
    assert printed(python, "-c", look) == "0.3.26 ['a2a-tool-capture']"
    for name in ("CaptureClient", "GatedPushConfigStore"):
        assert printed(python, "-c", REFUSED, name).startswith(f"{name} needs a2a-sdk 1.3 or newer")
    with ChildProcess([python, PROGRAM, "strandsagents", "+"]) as served:
        report = await check(served.read_line().removeprefix("listening on "), "Where is order ORD-1001?")
    assert report.verdict is CheckVerdict.CONFORMING


def test_extras_allow_the_frameworks_that_the_bridges_are_tested_with(dist: Path) -> None:
    pins = dict(re.findall(r"^([\w.-]+)==(\S+)", (PINS / "frameworks.txt").read_text("utf-8"), re.MULTILINE))
    asked = [one for one in requirements_of(wheel_of(dist, "a2a_tool_capture")) if one.name in pins]
    assert len(asked) > 4
    assert [str(one) for one in asked if not one.specifier.contains(pins[one.name])] == []


# ── with the lowest versions ────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Path]:
    """Next to other environments: packages are linked, not copied, where the cache of uv is on the same disk.

    What the commands write elsewhere stays with the test."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    ROOT.mkdir(exist_ok=True)
    with TemporaryDirectory(prefix="versions-", dir=ROOT, ignore_cleanup_errors=True) as name:
        Path(name, ".git").mkdir()  # `init` writes its job at the top of a repository: not of this one
        yield Path(name)


@pytest.mark.slow
@pytest.mark.timeout(600)  # where nothing is cached, packages are downloaded
async def test_the_wheels_alone_do_what_the_first_page_begins_with_and_serve(
    dist: Path, folder: Path, postgres: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the Python of the image and the lowest versions; .github/workflows/ci.yml has all combinations.

    Then through `serve`, one message over HTTP and one over gRPC, with telemetry of its own, which the agent refuses.
    """
    options = "--python", other_python("3.13"), "--versions", "lowest", "--installer", "uv"
    command = [sys.executable, TRY, dist, *options, "--extras", EXTRAS, "--folder", folder]
    monkeypatch.delenv("PYTHONPATH", raising=False)
    told = printed(*command)
    assert "scored each turn: 12 passed, 3 failed" in " ".join(told.split())
    program = folder / "env/bin/a2a-eval-proxy"
    printed(program.with_name("python"), "-P", "-c", "import psycopg, a2a_eval_proxy.testing.pytest_plugin")
    async with grpc_agent() as agent, AsyncExitStack() as stack:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", agent.url)
        listening = "--grpc", "127.0.0.1:0", "--store", postgres.new_database()
        proxy = Proxy(agent.url, folder / "turns.db", *listening, command=(program,))
        await asyncio.to_thread(stack.enter_context, proxy)
        for address in (proxy.url, f"grpc://{proxy.grpc_address}"):
            async with CaptureClient(address, timeout_s=PATIENCE_S) as client:
                turn = await client.send(f"chunks to {address}")
            stored = await asyncio.to_thread(proxy.turn_of, f"chunks to {address}")
            assert [call.name for call in turn.tool_calls] == ["search", "convert"]
            assert [call["name"] for call in stored["tool_calls"]] == ["search", "convert"]
        assert "telemetry failed" not in proxy.stderr()
