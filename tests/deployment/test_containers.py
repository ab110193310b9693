"""The image is built and run, and so are Pods as the manifests have them: the shared store, the classic sidecar."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import a2a_eval_proxy
import httpx
import pytest
from a2a.client import create_client
from a2a.types import TaskState
from deployment.containers import IMAGE, REPOSITORY, NoContainersError, Podman, commands, working_podman
from deployment.pod import PROXY, running, say, until_up
from deployment.rendering import overlay
from support.patience import PATIENCE_S
from support.ports import held_ports
from support.postgres_server import PostgresServer
from support.prefork import run
from support.provision import UnavailableError, python_environment

HARDENED = ("--read-only", "--read-only-tmpfs=false", "--cap-drop=all", "--security-opt=no-new-privileges")
GRACE_S = 60
"""As the manifest has it."""

pytestmark = [
    pytest.mark.installs,
    pytest.mark.slow,
    pytest.mark.timeout(600),
    pytest.mark.about("deploy", "hatch_build.py", "tests/deployment"),
]  # the first has the image built


@pytest.fixture(scope="module")
def podman() -> Iterator[Podman]:
    """Podman with the image built. Skips where containers cannot run, or their packages are not available."""
    with TemporaryDirectory(prefix="containers-", ignore_cleanup_errors=True) as folder:
        try:
            engine = working_podman(Path(folder))
            engine.build()
        except (NoContainersError, UnavailableError) as reason:
            pytest.skip(str(reason))
        yield engine
        engine("rm", "--force", "--time", "0", "--all")


def test_what_it_says_of_itself(podman: Podman) -> None:
    (image,) = json.loads(podman("image", "inspect", IMAGE))
    assert image["Config"]["User"] == "65532:65532"
    assert image["Config"]["Volumes"] == {"/data": {}}
    assert image["Labels"]["org.opencontainers.image.version"] == a2a_eval_proxy.__version__


def test_it_runs_without_rights_on_a_file_system_it_cannot_write_to(podman: Podman) -> None:
    told = podman("run", "--rm", *HARDENED, "--user", "1000", IMAGE, "--version")
    assert told.strip() == f"a2a-eval-proxy, version {a2a_eval_proxy.__version__}"


def test_nothing_in_it_installs_or_compiles(podman: Podman) -> None:
    programs = "[name for name in ('pip', 'pip3', 'gcc', 'cc', 'ld', 'make') if shutil.which(name)]"
    modules = "[name for name in ('pip', 'ensurepip', 'hatchling') if importlib.util.find_spec(name)]"
    look = f"import shutil, importlib.util; print({programs}, {modules})"
    assert podman("run", "--rm", "--entrypoint", "python3", IMAGE, "-c", look).strip() == "[] []"


def test_it_serves_and_ends_in_order(podman: Podman, port: int) -> None:
    variables = {"UPSTREAM": "http://127.0.0.1:9", "LISTEN": "127.0.0.1:0", "ADMIN": f"127.0.0.1:{port}", "OTLP": "off"}
    given = [f"--env=A2A_EVAL_PROXY_{name}={value}" for name, value in variables.items()]
    ((*shown, image),) = commands("docker", "run")
    with podman.start("run", *shown, "--name=served", *HARDENED, *given, image) as process:
        assert process.stdout is not None
        ready = next((line for line in process.stdout if "a2a-eval-proxy ready" in line), None)  # after its log, if any
        if ready is not None:
            podman("healthcheck", "run", "served")
            podman("kill", "--signal", "TERM", "served")
        rest = process.stdout.read()
    assert ready is not None
    assert "stopping" in rest
    assert process.returncode == 0


async def test_gateways_capture_and_workers_score(
    podman: Podman, postgres: PostgresServer, port: int, tmp_path: Path
) -> None:
    agent = ("-m", "a2a_eval_proxy.features.demo.agent", "--host", "127.0.0.1", "--port", str(port))
    podman("run", "--detach", "--name=elsewhere", *HARDENED, "--entrypoint=python3", IMAGE, *agent)
    secret = {"A2A_EVAL_PROXY_STORE": postgres.new_database()}
    upstream = {"http://agent": f"http://127.0.0.1:{port}"}
    with running(podman, tmp_path, overlay("shared-store"), secret, upstream) as gateway:
        async with await create_client(gateway.url) as client:
            assert await say(client, "Where is order ORD-1001?") == TaskState.TASK_STATE_COMPLETED
        async with asyncio.timeout(PATIENCE_S):
            while not (turns := gateway.get("/api/turns?status=done").json()["items"]):
                await asyncio.sleep(0.1)
        assert "a2a_eval_proxy_turns_scored_total 0.0" in gateway.get("/metrics").text
        podman("stop", "--time", str(GRACE_S), "a2a-eval-proxy-worker-worker")
        assert podman("wait", "a2a-eval-proxy-worker-worker").strip() == "0"
    (turn,) = turns
    assert [(result["evaluator"], result["status"]) for result in turn["evaluations"]] == [("tool_error", "passed")]


async def test_the_compose_file_serves_and_writes_the_report(podman: Podman, tmp_path: Path) -> None:
    """By the commands of the page. On the network of the host, so ports are others."""
    (up, report), ((source, name),), (assigned,) = (
        commands(*begin) for begin in (("docker", "compose"), ("docker", "cp"), ("export",))
    )
    python = python_environment("podman-compose", needed_in_ci=False)
    with held_ports(3) as (agent, proxy, admin):
        listen = {"LISTEN": f"127.0.0.1:{proxy}", "ADMIN": f"127.0.0.1:{admin}", "OTLP": "off"}
        services = {
            "agent": {"command": ["--host", "127.0.0.1", "--port", str(agent)]},
            "proxy": {"environment": {f"A2A_EVAL_PROXY_{name}": value for name, value in listen.items()}},
            "report": {},
        }
        here, ((folder,),) = tmp_path / "here.yaml", commands("cd")
        here.write_text(
            json.dumps({"services": {name: {"network_mode": "host"} | own for name, own in services.items()}})
        )
        variables = dict(word.split("=") for word in assigned) | {"A2A_EVAL_AGENT": f"http://127.0.0.1:{agent}"}
        compose = partial(podman.compose, python, [REPOSITORY / folder / "compose.yaml", here], **variables)
        try:
            compose(*up)
            await asyncio.to_thread(until_up, f"http://127.0.0.1:{proxy}")
            async with await create_client(f"http://127.0.0.1:{proxy}") as client:
                for text in ("Where is order ORD-1001?", "When will order ORD-1001 arrive?"):
                    assert await say(client, text) == TaskState.TASK_STATE_COMPLETED
            httpx.post(f"http://127.0.0.1:{admin}/api/flush", timeout=PATIENCE_S, trust_env=False).raise_for_status()
            assert "passed" in compose(*report)
            podman("cp", source, tmp_path / name)
        finally:
            compose("down", "--volumes")
    assert {"report.html", "junit.xml"} <= {path.name for path in (tmp_path / "report").iterdir()}


async def test_a_sidecar_scores_and_ends_in_order(podman: Podman, tmp_path: Path) -> None:
    """The proxy ends while the agent continues, as the agent's preStop has it."""
    text = "Where is order ORD-1001?"
    with running(podman, tmp_path, overlay("sidecar-classic"), {}, {}) as pod:
        assert pod.get("/metrics").is_success
        assert pod.get("/metrics", token="another").status_code == 401
        async with await create_client(pod.url) as client:
            assert await say(client, text) == TaskState.TASK_STATE_COMPLETED
        podman("stop", "--time", str(GRACE_S), PROXY, timeout_s=70)
        assert podman("wait", PROXY).strip() == "0"
        (container,) = json.loads(podman("container", "inspect", PROXY))
        (data,) = (mount["Source"] for mount in container["Mounts"] if mount["Destination"] == "/data")
        (turn,) = exported(Path(data) / "turns.db")
    assert (turn["user_text"], turn["status"], len(turn["tool_calls"])) == (text, "done", 1)
    assert [(result["evaluator"], result["status"]) for result in turn["evaluations"]] == [("tool_error", "passed")]


def exported(store: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in run("export", "--store", store).stdout.splitlines()]
