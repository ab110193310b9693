"""What every Pod of ours must be: the restricted Pod Security Standard, and some rules of the house."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

HARMLESS_VOLUMES = {
    *("configMap", "csi", "downwardAPI", "emptyDir", "ephemeral", "persistentVolumeClaim", "projected", "secret")
}


def faults(pod: dict[str, Any]) -> list[str]:
    """What is wrong with a Pod spec; [] for one that is as it must be."""
    return [*_of_pod(pod), *(fault for container in containers(pod) for fault in _of_container(pod, container))]


def containers(pod: dict[str, Any]) -> list[dict[str, Any]]:
    """All of them, those that start first, too."""
    return [*pod.get("initContainers", []), *pod["containers"]]


def _of_pod(pod: dict[str, Any]) -> Iterator[str]:
    for key in ("hostNetwork", "hostPID", "hostIPC"):
        if pod.get(key):
            yield key
    for volume in pod.get("volumes", []):
        if not set(volume) - {"name"} <= HARMLESS_VOLUMES:
            yield f"volume {volume['name']}"
    if pod.get("automountServiceAccountToken") is not False:
        yield "the token of the service account is mounted"
    if pod.get("terminationGracePeriodSeconds", 0) < 30:
        yield "no time to end in order"


def _of_container(pod: dict[str, Any], container: dict[str, Any]) -> Iterator[str]:
    name = container["name"]
    own, shared = container.get("securityContext", {}), pod.get("securityContext", {})
    context = {**shared, **own}
    if context.get("runAsNonRoot") is not True or context.get("runAsUser", 0) == 0:
        yield f"{name}: may be root"
    if own.get("allowPrivilegeEscalation") is not False or own.get("privileged"):
        yield f"{name}: may gain privileges"
    if own.get("capabilities") != {"drop": ["ALL"]}:
        yield f"{name}: keeps capabilities"
    if context.get("seccompProfile", {}).get("type") not in ("RuntimeDefault", "Localhost"):
        yield f"{name}: no seccomp profile"
    if own.get("readOnlyRootFilesystem") is not True:
        yield f"{name}: its root file system can be written to"
    repository, _, version = container["image"].rpartition("@" if "@" in container["image"] else ":")
    if not repository or version == "latest":
        yield f"{name}: image {container['image']} is not pinned"
    resources = container.get("resources", {})
    if not {"cpu", "memory"} <= set(resources.get("requests", {})) or "memory" not in resources.get("limits", {}):
        yield f"{name}: resources are not limited"
    for probe in ("readinessProbe", "livenessProbe"):
        if probe not in container:
            yield f"{name}: no {probe}"
    if any(not port.get("name") or port.get("hostPort") for port in container.get("ports", [])):
        yield f"{name}: a port without a name, or of the host"
