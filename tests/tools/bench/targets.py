"""What is measured: the agent itself, and each proxy as a process of its own in front of the agent."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import IO, Any

from support.ports import held_ports

from . import procfs
from .report import DIRECT
from .revision import environment_of

START_TIMEOUT_S = 60.0
SETTLE_TIMEOUT_S = 60
SUBJECTS = Path(__file__).parent / "subjects"

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


class TargetUnavailableError(RuntimeError):
    """A target cannot be measured here; the message says what to install or leave out."""


@dataclass(frozen=True)
class Launch:
    """How to start a proxy. `ready_url` answers 200 once it takes traffic; `admin_url` where it has an admin API."""

    command: list[str]
    port: int
    ready_url: str
    admin_url: str | None = None
    environment: dict[str, str] = field(default_factory=dict)
    """Besides that of this process."""


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

    def rss_bytes(self) -> int | None:
        return None if self.pid is None else procfs.rss_bytes(self.pid)

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


def launch_nginx(upstream: str, folder: Path, port: int) -> Launch:
    """nginx as a reverse proxy: one worker, kept connections to the agent, nothing buffered, nothing logged."""
    program = shutil.which("nginx") or shutil.which("nginx", path="/usr/sbin:/usr/local/sbin")
    if program is None:
        raise TargetUnavailableError("nginx is not installed: apt-get install nginx-light, or leave it out with --only")
    config = folder / "nginx.conf"
    config.write_text(NGINX_CONFIG.format(folder=folder, port=port, upstream=upstream))
    command = [program, "-p", str(folder), "-e", "stderr", "-c", str(config)]
    return Launch(command, port, f"http://127.0.0.1:{port}/.well-known/agent-card.json")


def launch_proxy(
    upstream: str, folder: Path, ports: list[int], part: str, *options: str, tree: Path | None = None, agents: int = 1
) -> Launch:
    """`serve` as subjects/stage.py runs it with `part`, of this environment or of the packages in `tree`.

    `ports`: of the proxy and of its admin API. Of several `agents`, the load is for the first, by its host.
    """
    behind = ["--upstream", f"http://{upstream}"]
    if agents > 1:
        hosts = [{}, {"hosts": "127.0.0.1"}]
        own = {f"a{number}": {"upstream": f"http://{upstream}", **hosts[not number]} for number in range(agents)}
        (folder / "agents.yaml").write_text(json.dumps({"agents": own}))
        behind = ["--config", str(folder / "agents.yaml")]
    port, admin_port = ports
    admin_url = f"http://127.0.0.1:{admin_port}"
    command = [
        *(sys.executable, str(SUBJECTS / "stage.py"), part, *behind),
        *("--listen", f"127.0.0.1:{port}", "--admin", f"127.0.0.1:{admin_port}"),
        *("--store", str(folder / "turns.db"), *options),
    ]
    return Launch(command, port, f"{admin_url}/readyz", admin_url, environment_of(tree))


def launch_script(script: str, upstream: str, folder: Path, port: int) -> Launch:
    """The program subjects/SCRIPT."""
    command = [sys.executable, str(SUBJECTS / script), str(port), f"http://{upstream}"]
    return Launch(command, port, f"http://127.0.0.1:{port}/.well-known/agent-card.json")


OTHERS: dict[str, Callable[[str, Path, int], Launch]] = {
    "nginx": launch_nginx,
    "floor": partial(launch_script, "floor.py"),
    "naive": partial(launch_script, "naive.py"),
}


@dataclass(frozen=True)
class Target:
    """A column or row of the table; `reads` and `stores` are what a proxy of ours does with turns."""

    name: str
    part: str = ""
    """What subjects/stage.py leaves on; "": another program, or none."""
    options: tuple[str, ...] = ()
    asks: bool = True
    """Whether clients ask for tool calls. Otherwise the proxy does: the agent's responses are alike for all targets."""
    reads: bool = False
    stores: bool = False
    agents: int = 1
    """How many are behind the proxy."""
    tree: Path | None = None
    """Folder of the packages; None: those of this environment."""

    @contextmanager
    def started(self, agent_port: int, folder: Path, cpus: set[int], calls: Path | None = None) -> Iterator[Running]:
        """Start it in front of the agent, on `cpus`, and stop it afterwards. Its files go to `folder`.

        A proxy of ours counts its `calls`, and writes them to that file when it ends.

        Raises TargetUnavailableError where it is not installed or does not become ready.
        """
        if self.name == DIRECT:
            yield Running(DIRECT, agent_port)
            return
        with held_ports(2) as ports:
            launch = self._launch(f"127.0.0.1:{agent_port}", folder, ports)
            if calls is not None:
                launch.environment["BENCH_CALLS"] = str(calls)
            with launched(self.name, launch, folder, cpus, asks=self.asks) as running:
                yield running

    def _launch(self, upstream: str, folder: Path, ports: list[int]) -> Launch:
        if self.name in OTHERS:
            return OTHERS[self.name](upstream, folder, ports[0])
        return launch_proxy(
            upstream, folder, ports, self.part, "--no-otlp", *self.options, tree=self.tree, agents=self.agents
        )


NGINX, FLOOR = Target("nginx"), Target("floor")
TRAFFIC_TARGETS = (
    Target(DIRECT),
    NGINX,
    FLOOR,
    Target("proxy", "all", asks=False, reads=True, stores=True),
    Target("naive"),
)
STAGES = (
    Target(DIRECT),
    NGINX,
    FLOOR,
    Target("forwarding", "forwarding", ("--negotiate", "never")),
    Target("capture", "capture", reads=True),
    Target("filter", "capture", asks=False, reads=True),
    Target("store", "all", ("--no-evaluate",), asks=False, reads=True, stores=True),
    Target("forty agents", "all", asks=False, reads=True, stores=True, agents=40),
    Target("scoring", "all", asks=False, reads=True, stores=True),
)
"""Each with all that those before it do; the last is `serve` as it is used, and before it the same with more agents."""


def start(launch: Launch, output: IO[bytes], cpus: set[int]) -> subprocess.Popen[bytes]:
    """A new process on `cpus` that writes to `output`."""
    environment = os.environ | launch.environment
    return subprocess.Popen(
        launch.command, stdout=output, stderr=output, env=environment, preexec_fn=procfs.pin_to(cpus)
    )


@contextmanager
def launched(name: str, launch: Launch, folder: Path, cpus: set[int], *, asks: bool = False) -> Iterator[Running]:
    """Start a process on `cpus`, wait until it is ready, stop it afterwards. Raises TargetUnavailableError."""
    log = folder / "output.log"
    with log.open("wb") as output:
        started = time.perf_counter()
        process = start(launch, output, cpus)
    try:
        _wait_until_ready(name, process, launch, log)
        ready_s = time.perf_counter() - started
        yield Running(name, launch.port, asks, process.pid, ready_s, launch.admin_url)
    finally:
        _stop(process)


def _wait_until_ready(name: str, process: subprocess.Popen[bytes], launch: Launch, log: Path) -> None:
    give_up = time.perf_counter() + START_TIMEOUT_S
    while process.poll() is None and time.perf_counter() < give_up:
        try:
            with urllib.request.urlopen(launch.ready_url, timeout=1):
                return
        except OSError:  # not listening yet, or an HTTP status that says "not ready"
            time.sleep(0.005)
    state = f"ended with code {process.returncode}" if process.poll() is not None else "is not ready"
    said = log.read_text(errors="replace")[-2000:]
    raise TargetUnavailableError(f"{name} {state} ({launch.ready_url}): {' '.join(launch.command)}\n{said}")


def _stop(process: subprocess.Popen[bytes]) -> None:
    process.send_signal(signal.SIGTERM)
    try:
        process.wait(timeout=60)
    except subprocess.TimeoutExpired:
        process.send_signal(signal.SIGKILL)
        process.wait()
