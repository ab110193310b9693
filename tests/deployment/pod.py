"""The Pods of rendered Deployments, started for real by podman."""

from __future__ import annotations

import base64
import json
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
from a2a.helpers import new_text_message
from a2a.types import Role, SendMessageRequest, TaskState
from deployment.containers import IMAGE, Podman
from deployment.rendering import Manifest, only
from support.ports import held_ports

TOKEN = "a-token-of-this-test"
PROXY = "agent-a2a-eval-proxy"
READY_TIMEOUT_S = 60
PORTS = ("18080", "18081", "4318", "9999", "18082")
"""As the manifests have them; the last in place of a worker's 18081, which is the proxy's in the network they share."""


@dataclass(frozen=True)
class Pod:
    """What runs: where clients go, and the admin port."""

    url: str
    admin: str

    def get(self, path: str, token: str = TOKEN) -> httpx.Response:
        return httpx.get(self.admin + path, headers={"Authorization": f"Bearer {token}"}, trust_env=False)


def as_pods(manifests: list[Manifest], instead: dict[str, str]) -> list[Manifest]:
    """The settings of Deployments, and one Pod as each of them would start it, under its name.

    What differs is what this machine asks for: an image that was built here, and the network of the host; so ports are
    others, as `instead` says, and are not declared. Podman knows neither probes by port name nor preStop, and before
    4.4 no volumes of Secrets: these are left out, as they may be.
    """
    pods = []
    for deployment in (one for one in manifests if one["kind"] == "Deployment"):
        template = deployment["spec"]["template"]
        metadata = {"name": deployment["metadata"]["name"], **template["metadata"]}
        pod: Manifest = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": template["spec"]}
        pod["spec"]["hostNetwork"] = True
        if deployment["metadata"]["name"].endswith("-worker"):
            pod = json.loads(json.dumps(pod).replace(":18081", ":18082"))
        secret = [volume for volume in pod["spec"]["volumes"] if "secret" in volume]
        pod["spec"]["volumes"] = [volume for volume in pod["spec"]["volumes"] if volume not in secret]
        for container in pod["spec"]["containers"]:
            container |= {"image": IMAGE, "imagePullPolicy": "Never"}
            for key in ("ports", "startupProbe", "readinessProbe", "livenessProbe", "lifecycle"):
                container.pop(key, None)
            mounts = container["volumeMounts"]
            container["volumeMounts"] = [
                mount for mount in mounts if mount["name"] not in {volume["name"] for volume in secret}
            ]
        pods.append(pod)
    text = json.dumps([only(manifests, "ConfigMap"), *pods])
    words = "|".join(map(re.escape, instead))
    return list(json.loads(re.sub(rf"(?<!\w)({words})(?!\w)", lambda found: instead[found[0]], text)))


@contextmanager
def running(
    podman: Podman, folder: Path, manifests: list[Manifest], secret: dict[str, str], instead: dict[str, str]
) -> Iterator[Pod]:
    """These Deployments, one Pod of each, ready to serve; the folder keeps what they are made of.

    `secret` are keys of the Secret next to the admin token; `instead` what to write for the word in the manifests.
    """
    with held_ports(len(PORTS)) as held:
        ports = {word: str(port) for word, port in zip(PORTS, held, strict=True)}
        file, keys = folder / "pods.yaml", folder / "secret.json"
        file.write_text("\n---\n".join(map(json.dumps, as_pods(manifests, ports | instead))))
        values = {"A2A_EVAL_PROXY_ADMIN_TOKEN": TOKEN, **secret}
        keys.write_text(json.dumps({name: base64.b64encode(value.encode()).decode() for name, value in values.items()}))
        podman("secret", "create", "a2a-eval-proxy", keys)
        try:
            podman("kube", "play", file)
            pod = Pod(f"http://127.0.0.1:{ports['18080']}", f"http://127.0.0.1:{ports['18081']}")
            until_up(pod.url)
            yield pod
        finally:
            podman("pod", "rm", "--force", "--time", "0", "--all")
            podman("secret", "rm", "a2a-eval-proxy")


def until_up(url: str) -> None:
    """The agent answers through the proxy. Raises TimeoutError."""
    deadline = time.monotonic() + READY_TIMEOUT_S
    while time.monotonic() < deadline:
        with suppress(httpx.TransportError):
            if httpx.get(f"{url}/.well-known/agent-card.json", trust_env=False).is_success:
                return
        time.sleep(0.05)
    raise TimeoutError(f"{url} is not up after {READY_TIMEOUT_S} s")


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
