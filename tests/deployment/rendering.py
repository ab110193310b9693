"""Manifests as a cluster would get them: rendered by the real kubectl and helm, offline."""

from __future__ import annotations

import atexit
import functools
import json
import subprocess
from pathlib import Path
from typing import Any

import yaml
from support.processes import ChildProcess
from support.provision import PINS, kubernetes_tools, node_environment, python_environment

DEPLOY = Path(__file__).parents[2] / "deploy"
CHART = DEPLOY / "helm" / "a2a-eval-proxy"
OVERLAYS = DEPLOY / "kustomize" / "overlays"

Manifest = dict[str, Any]

CUSTOM = ("gateway.networking.k8s.io/", "monitoring.coreos.com/")
"""Of what Kubernetes itself has no schema for."""

VALIDATE = """\
import functools, json, sys
import kubernetes_validate as k
k.utils.schema_contents = functools.cache(k.utils.schema_contents)
for line in sys.stdin:
    found = []
    for manifest, version in json.loads(line):
        try:
            k.validate(manifest, version, strict=True)
        except (k.ValidationError, k.SchemaNotFoundError) as error:
            name = manifest["kind"], manifest["metadata"]["name"]
            found.append(" ".join([*name, version, str(getattr(error, "message", error))]))
    print(json.dumps(found), flush=True)
"""
"""Reads jobs by line, and answers each with a line of complaints. Reads each file of schemas once, not for each job."""


class RenderError(Exception):
    """kubectl or helm refused; the message is theirs."""


def python_of_tools() -> Path:
    """The interpreter of an environment with schemas of Kubernetes, and hadolint. Skips where it is missing."""
    return python_environment("kubernetes", needed_in_ci=False)


def kustomized(folder: Path) -> list[Manifest]:
    """What `kubectl kustomize` makes of a folder. Raises RenderError."""
    return _parsed(_run("kubectl", "kustomize", str(folder)))


def overlay(name: str) -> list[Manifest]:
    """That overlay of the repository, rendered."""
    return _parsed(_once("kubectl", "kustomize", str(OVERLAYS / name)))


def chart(*arguments: str) -> list[Manifest]:
    """What `helm template` makes of the chart, as release `shop`. Raises RenderError."""
    return _parsed(_once("helm", "template", "shop", str(CHART), *arguments))


def helm(*arguments: str) -> str:
    """What helm prints. Raises RenderError."""
    return _run("helm", *arguments)


def kubectl(*arguments: str) -> str:
    """What kubectl prints. Raises RenderError."""
    return _run("kubectl", *arguments)


def complaints(manifests: list[Manifest], versions: tuple[str, ...]) -> list[str]:
    """What the strict schemas of those Kubernetes versions have against the manifests, and those of the Gateway API and
    the Prometheus operator, which have one version here."""
    own = [manifest for manifest in manifests if manifest["apiVersion"].startswith(CUSTOM)]
    jobs = [(manifest, version) for manifest in manifests if manifest not in own for version in versions]
    found: list[str] = json.loads(_validator().ask(json.dumps(jobs)))
    return found + (json.loads(_custom_validator().ask(json.dumps(own))) if own else [])


@functools.cache
def _validator() -> ChildProcess:
    """One process for all tests: reading the schemas takes most of its time."""
    return _running(python_of_tools(), "-c", VALIDATE)


@functools.cache
def _custom_validator() -> ChildProcess:
    modules = node_environment("kubernetes-models", PINS / "kubernetes-models").resolve() / "node_modules"
    return _running("node", Path(__file__).with_name("custom_resources.mjs"), modules)


def _running(*command: str | Path) -> ChildProcess:
    process = ChildProcess(command).__enter__()
    atexit.register(process.stop)
    return process


def only(manifests: list[Manifest], kind: str, name: str | None = None) -> Manifest:
    """The one manifest of that kind (and name)."""
    (found,) = (
        manifest for manifest in manifests if manifest["kind"] == kind and name in (None, manifest["metadata"]["name"])
    )
    return found


def _parsed(text: str) -> list[Manifest]:
    return [manifest for manifest in yaml.load_all(text, yaml.CSafeLoader) if manifest]


@functools.cache
def _once(tool: str, *arguments: str) -> str:
    """As `_run`, for what does not change while the tests run."""
    return _run(tool, *arguments)


def _run(tool: str, *arguments: str) -> str:
    done = subprocess.run([kubernetes_tools() / tool, *arguments], capture_output=True, text=True, check=False)
    if done.returncode:
        raise RenderError(done.stderr.strip() or done.stdout.strip())
    return done.stdout
