"""The rendered Pod of the classic sidecar, started for real: agent and proxy, a client, and its end under load."""

from __future__ import annotations

import asyncio
import base64
import json
import subprocess
import uuid
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest
from a2a.client import create_client
from a2a.helpers import new_text_message
from a2a.types import Role, SendMessageRequest, TaskState
from deployment.containers import IMAGE, Podman
from deployment.rendering import Manifest, only, overlay
from e2e.ports import free_ports
from e2e.proxy import COMMAND

TOKEN = "a token of this test"
PROXY = "agent-a2a-eval-proxy"
CLIENTS = 6
GRACE_S = 60
"""As the manifest has it."""


@dataclass(frozen=True)
class Pod:
    """What runs: where clients go, and the admin port."""

    url: str
    admin: str

    def ready(self) -> int | None:
        """What /readyz answers; None where nobody listens."""
        with suppress(httpx.TransportError):
            return httpx.get(f"{self.admin}/readyz", trust_env=False).status_code
        return None

    def get(self, path: str, token: str = TOKEN) -> httpx.Response:
        return httpx.get(self.admin + path, headers={"Authorization": f"Bearer {token}"}, trust_env=False)


def as_pod(manifests: list[Manifest], ports: dict[int, int]) -> list[Manifest]:
    """The Pod that the Deployment would start, and its settings.

    What differs is what this machine asks for: an image that was built here, and the network of the host; so ports are
    others, and are not declared. Podman knows neither probes by port name nor preStop.
    """
    template = only(manifests, "Deployment")["spec"]["template"]
    pod: Manifest = {"apiVersion": "v1", "kind": "Pod", "spec": template["spec"]}
    pod["metadata"] = {"name": "agent", **template["metadata"]}
    pod["spec"]["hostNetwork"] = True
    for container in pod["spec"]["containers"]:
        container |= {"image": IMAGE, "imagePullPolicy": "Never"}
        for key in ("ports", "startupProbe", "readinessProbe", "livenessProbe", "lifecycle"):
            container.pop(key, None)
    text = json.dumps([only(manifests, "ConfigMap"), pod])
    for port, free in ports.items():
        text = text.replace(str(port), str(free))
    return list(json.loads(text))


@pytest.fixture(scope="module")
def pod(podman: Podman, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pod]:
    """The Pod, ready."""
    folder = tmp_path_factory.mktemp("pod")
    ports = dict(zip((18080, 18081, 4318, 9999), free_ports(4), strict=True))
    manifests = as_pod(overlay("sidecar-classic"), ports)
    file, secret = folder / "pod.yaml", folder / "secret.json"
    file.write_text("\n---\n".join(map(json.dumps, manifests)))
    secret.write_text(json.dumps({"A2A_EVAL_PROXY_ADMIN_TOKEN": base64.b64encode(TOKEN.encode()).decode()}))
    podman("secret", "create", "a2a-eval-proxy", secret)
    try:
        podman("kube", "play", file)
        running = Pod(f"http://127.0.0.1:{ports[18080]}", f"http://127.0.0.1:{ports[18081]}")
        asyncio.run(_until_up(running))
        yield running
    finally:
        podman("pod", "rm", "--force", "--time", "0", "--all")


async def _until_up(pod: Pod) -> None:
    """The proxy is ready, and the agent answers through it."""
    async with asyncio.timeout(30):
        while pod.ready() != 200:
            await asyncio.sleep(0.05)
        card = f"{pod.url}/.well-known/agent-card.json"
        while not httpx.get(card, trust_env=False).is_success:
            await asyncio.sleep(0.05)


async def say(client: Any, text: str) -> TaskState:
    """In which state the agent's task ended."""
    state = TaskState.TASK_STATE_UNSPECIFIED
    message = new_text_message(text, role=Role.ROLE_USER)
    async for event in client.send_message(SendMessageRequest(message=message)):
        if event.HasField("status_update"):
            state = event.status_update.status.state
        elif event.HasField("task"):
            state = event.task.status.state
    return state


@pytest.mark.slow
async def test_a_client_talks_to_the_agent_and_the_proxy_scores_it(pod: Pod) -> None:
    text = f"Where is order ORD-1001? ({uuid.uuid4()})"
    async with await create_client(pod.url) as client:
        assert await say(client, text) == TaskState.TASK_STATE_COMPLETED
    flushed = httpx.post(
        f"{pod.admin}/api/flush", headers={"Authorization": f"Bearer {TOKEN}"}, timeout=30, trust_env=False
    )
    assert flushed.is_success
    (turn,) = (turn for turn in pod.get("/api/turns").json()["items"] if turn["user_text"] == text)
    assert [call["name"] for call in turn["tool_calls"]] == ["lookup_order"]
    assert [(result["evaluator"], result["status"]) for result in turn["evaluations"]] == [("tool_error", "passed")]


@pytest.mark.slow
def test_the_admin_port_wants_the_token_of_the_secret(pod: Pod) -> None:
    assert pod.get("/metrics").is_success
    assert pod.get("/metrics", token="another").status_code == 401
    assert pod.ready() == 200


@pytest.mark.slow
async def test_it_ends_under_load_in_order(pod: Pod, podman: Podman) -> None:
    """The proxy ends while the agent goes on, as the agent's preStop has it. Clients leave when it is not ready."""
    answers: dict[str, TaskState] = {}
    enough = asyncio.Event()

    async def talk(number: int) -> None:
        async with await create_client(pod.url) as client:
            while not enough.is_set():
                text = f"Where is order ORD-1001? ({number}-{uuid.uuid4()})"
                answers[text] = await say(client, text)

    async def at_least(count: int) -> None:
        while len(answers) < count:
            await asyncio.sleep(0.02)

    async with asyncio.timeout(GRACE_S), asyncio.TaskGroup() as clients:
        for number in range(CLIENTS):
            clients.create_task(talk(number))
        await at_least(5 * CLIENTS)
        ending = asyncio.create_task(asyncio.to_thread(podman, "stop", "--time", str(GRACE_S), PROXY, timeout_s=70))
        while await asyncio.to_thread(pod.ready) != 503:
            await asyncio.sleep(0.02)
        await at_least(len(answers) + 5 * CLIENTS)
        enough.set()
    await ending

    assert podman("wait", PROXY).strip() == "0"
    assert set(answers.values()) == {TaskState.TASK_STATE_COMPLETED}
    volume = Path(podman("volume", "inspect", "--format", "{{.Mountpoint}}", "a2a-eval-proxy-data").strip())
    turns = [turn for turn in exported(volume / "turns.db") if turn["user_text"] in answers]
    assert Counter(turn["user_text"] for turn in turns) == Counter(list(answers))
    assert {turn["status"] for turn in turns} == {"done"}
    assert {len(turn["tool_calls"]) for turn in turns} == {1}


def exported(store: Path) -> list[dict[str, Any]]:
    lines = subprocess.run([COMMAND, "export", "--store", store], capture_output=True, text=True, check=True).stdout
    return [json.loads(line) for line in lines.splitlines()]
