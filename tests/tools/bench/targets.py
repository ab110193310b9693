"""What is measured: the agent itself, and each proxy as a process of its own in front of the agent."""

from __future__ import annotations

import io
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import time
import urllib.request
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from support.ports import held_ports

from . import procfs
from .part import Setting, UnavailableTargetError

START_TIMEOUT_S = 60.0
SETTLE_TIMEOUT_S = 60
SUBJECTS = Path(__file__).parent / "subjects"
ROOT = Path(__file__).parents[3]
PACKAGES = ("extension", "evaluators", "proxy")
DIRECT, NGINX = "direct", "nginx"
"""The call without a proxy, and nginx as one."""

NGINX_CONFIG = """\
daemon off;
worker_processes 1;
pid {folder}/nginx.pid;
error_log stderr error;
events {{ worker_connections 4096; }}
http {{
  access_log off;
  keepalive_requests 100000000;
  client_body_temp_path {folder}/body;
  proxy_temp_path {folder}/proxy;
  fastcgi_temp_path {folder}/fastcgi;
  uwsgi_temp_path {folder}/uwsgi;
  scgi_temp_path {folder}/scgi;
  upstream agent {{
    server {upstream};
    keepalive 1024;
    keepalive_requests 100000000;
  }}
  server {{
    listen 127.0.0.1:{port} backlog=4096;
    location / {{
      proxy_pass http://agent;
      proxy_http_version 1.1;
      proxy_set_header Host $http_host;
      proxy_set_header Connection "";
      proxy_buffering off;
    }}
  }}
}}
"""


@dataclass(frozen=True)
class Running:
    """A target that takes traffic on `port` of 127.0.0.1. `pid` and `ready_s` are None for the direct call."""

    name: str
    port: int
    asks: bool = True
    """Whether clients ask it for tool calls."""
    pid: int | None = None
    ready_s: float | None = None
    admin_url: str | None = None

    def cpu_seconds(self) -> float | None:
        return None if self.pid is None else procfs.cpu_seconds(self.pid)

    def rss_mb(self) -> float | None:
        return None if self.pid is None else procfs.rss_bytes(self.pid) / 1e6

    def settle(self) -> bool:
        """Wait until work put off during the load is done, so that it can be counted. False where it is not in time."""
        if self.admin_url is None:
            return True
        url = f"{self.admin_url}/api/flush?timeout={SETTLE_TIMEOUT_S}"
        try:
            with urllib.request.urlopen(urllib.request.Request(url, method="POST"), timeout=SETTLE_TIMEOUT_S + 5):
                return True
        except OSError:  # an error status, a timeout, or the proxy is gone
            return False

    def counter(self, name: str) -> int:
        """A counter of the proxy's metrics, 0 where it has none of that name."""
        with urllib.request.urlopen(f"{self.admin_url}/metrics", timeout=60) as answer:
            found = re.search(rf"^a2a_eval_proxy_{name}_total (\S+)", answer.read().decode(), re.MULTILINE)
        return int(float(found[1])) if found else 0

    def stored_turns(self) -> list[dict[str, Any]]:
        """The first 100 turns in the proxy's store."""
        with urllib.request.urlopen(f"{self.admin_url}/api/turns?limit=100", timeout=60) as answer:
            turns: list[dict[str, Any]] = json.load(answer)["items"]
        return turns


@dataclass(frozen=True)
class Target:
    """A column of the table; `reads` and `stores` are what a proxy of ours does with turns."""

    name: str
    part: str = ""
    """What subjects/stage.py leaves on; "": another program, or none."""
    options: tuple[str, ...] = ()
    asks: bool = True
    """Whether clients ask for tool calls. Otherwise the proxy does: the agent's responses are alike for all targets."""
    reads: bool = False
    stores: bool = False
    tree: Path | None = None
    """Folder of the packages; None: those of this environment."""

    @contextmanager
    def started(self, agent_port: int, folder: Path, cpus: set[int]) -> Iterator[Running]:
        """Start it in front of the agent, on `cpus`, and stop it afterwards. Its files go to `folder`.

        Raises UnavailableTargetError where it is not installed or does not become ready.
        """
        if self.name == DIRECT:
            yield Running(DIRECT, agent_port)
            return
        upstream = f"127.0.0.1:{agent_port}"
        with held_ports(2) as (port, admin):
            variables = {}
            if self.tree is not None:
                variables["PYTHONPATH"] = os.pathsep.join(str(self.tree / name) for name in PACKAGES)
            if self.part:
                command = proxy_command(upstream, folder, port, admin, self.part, "--no-otlp", *self.options)
                running = launched(self.name, command, port, folder, cpus, admin, variables)
            elif self.name == NGINX:
                running = launched(self.name, _nginx_command(upstream, folder, port), port, folder, cpus)
            else:
                command = [sys.executable, str(SUBJECTS / "naive.py"), str(port), f"http://{upstream}"]
                running = launched(self.name, command, port, folder, cpus)
            with running as process:
                yield replace(process, asks=self.asks)


def proxy_command(upstream: str, folder: Path, port: int, admin: int, part: str, *options: str) -> list[str]:
    """`serve` as subjects/stage.py runs it with `part`."""
    return [
        *(sys.executable, str(SUBJECTS / "stage.py"), part, "--upstream", f"http://{upstream}"),
        *("--listen", f"127.0.0.1:{port}", "--admin", f"127.0.0.1:{admin}"),
        *("--store", str(folder / "turns.db"), *options),
    ]


def _nginx_command(upstream: str, folder: Path, port: int) -> list[str]:
    """One worker, kept connections to the agent, nothing buffered, nothing logged."""
    program = shutil.which("nginx") or shutil.which("nginx", path="/usr/sbin:/usr/local/sbin")
    if program is None:
        raise UnavailableTargetError("nginx is not installed: apt-get install nginx-light, or leave it out with --only")
    config = folder / "nginx.conf"
    config.write_text(NGINX_CONFIG.format(folder=folder, port=port, upstream=upstream))
    return [program, "-p", str(folder), "-e", "stderr", "-c", str(config)]


SCORING = Target("scoring", "all", asks=False, reads=True, stores=True)
TRAFFIC_TARGETS = (
    Target(DIRECT),
    Target(NGINX),
    replace(SCORING, name="proxy"),
    Target("naive"),
)
STAGES = (
    *TRAFFIC_TARGETS[:2],
    Target("forwarding", "forwarding", ("--negotiate", "never")),
    Target("capture", "capture", reads=True),
    Target("filter", "capture", asks=False, reads=True),
    Target("store", "all", ("--no-evaluate",), asks=False, reads=True, stores=True),
    SCORING,
)
"""Each with all that those before it do; the last is `serve` as it is used."""


def chosen(targets: Iterable[Target], setting: Setting) -> list[Target]:
    """Those that are wanted; each proxy of ours also of the other tree.

    Raises UnavailableTargetError where that is neither a folder nor a revision.
    """
    found = [target for target in targets if setting.only is None or target.name in setting.only]
    if setting.against is not None:
        tree = _checked_out(setting.against, setting.folder)
        ours = [target for target in found if target.part]
        found += [replace(target, name=f"{target.name} at {setting.against}", tree=tree) for target in ours]
    return found


def _checked_out(name: str, folder: Path) -> Path:
    """The folder `name`, or a copy of that revision's packages in `folder`."""
    if Path(name).is_dir():
        return Path(name).resolve()
    done = subprocess.run(["git", "-C", str(ROOT), "archive", name, *PACKAGES], capture_output=True, check=False)
    if done.returncode:
        raise UnavailableTargetError(f"{name} is no folder and no revision: {done.stderr.decode().strip()}")
    tree = folder / "checked-out"
    with tarfile.open(fileobj=io.BytesIO(done.stdout)) as archive:
        archive.extractall(tree, filter="data")
    return tree


@contextmanager
def launched(
    name: str,
    command: list[str],
    port: int,
    folder: Path,
    cpus: set[int],
    admin: int | None = None,
    variables: Mapping[str, str] | None = None,
) -> Iterator[Running]:
    """Start a process on `cpus`, wait until it is ready, stop it afterwards. Raises UnavailableTargetError.

    `admin` is the port of its admin API, if it has one; `variables` join the environment.
    """
    admin_url = None if admin is None else f"http://127.0.0.1:{admin}"
    ready_url = f"{admin_url}/readyz" if admin_url else f"http://127.0.0.1:{port}/.well-known/agent-card.json"
    log = folder / "output.log"
    environment = os.environ | (variables or {})
    with log.open("wb") as output:
        started = time.perf_counter()
        process = subprocess.Popen(
            command, stdout=output, stderr=output, env=environment, preexec_fn=procfs.pin_to(cpus)
        )
    try:
        if not _becomes_ready(process, ready_url):
            said = log.read_text(errors="replace")[-2000:]
            raise UnavailableTargetError(f"{name} does not become ready: {' '.join(command)}\n{said}")
        yield Running(name, port, True, process.pid, time.perf_counter() - started, admin_url)
    finally:
        process.terminate()
        process.wait(60)


def _becomes_ready(process: subprocess.Popen[bytes], url: str) -> bool:
    give_up = time.perf_counter() + START_TIMEOUT_S
    while process.poll() is None and time.perf_counter() < give_up:
        try:
            with urllib.request.urlopen(url, timeout=1):
                return True
        except OSError:  # not listening yet, or an HTTP status that says "not ready"
            time.sleep(0.005)
    return False
