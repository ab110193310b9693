"""The Pod of a rendered Deployment, started for real by podman: agent and proxy."""

from __future__ import annotations

import asyncio
import base64
import json
import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
from a2a.helpers import new_text_message
from a2a.types import Role, SendMessageRequest, TaskState
from deployment.containers import IMAGE, Podman
from deployment.rendering import Manifest, only, overlay
from e2e.ports import free_ports

TOKEN = "a token of this test"
PROXY = "agent-a2a-eval-proxy"
READY_TIMEOUT_S = 60


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
    other = re.sub(rf"\b({'|'.join(map(str, ports))})\b", lambda found: str(ports[int(found[0])]), text)
    return list(json.loads(other))


@contextmanager
def running_pod(podman: Podman, folder: Path) -> Iterator[Pod]:
    """The Pod, ready; the folder keeps what it is made of."""
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
    async with asyncio.timeout(READY_TIMEOUT_S):
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
