"""HAProxy before several proxies, as a Kubernetes Service would be: health checks decide who gets traffic."""

from __future__ import annotations

import shutil
import socket
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

CHECK_EVERY_MS = 400
CONFIG = """\
global
    stats socket {socket} mode 600 level user
defaults
    mode http
    timeout connect 60s
    timeout client 60s
    timeout server 60s
    retries 0
frontend clients
    bind 127.0.0.1:{port}
    default_backend proxies
backend proxies
    balance roundrobin
    option httpchk GET /readyz
    default-server check inter {check_every}ms fall 1 rise 1
"""


@dataclass(frozen=True)
class Behind:
    """Ports of one proxy: where its traffic goes, and where its /readyz is."""

    name: str
    port: int
    admin_port: int


class Balancer:
    """A running HAProxy that tries every request once."""

    def __init__(self, url: str, control: Path) -> None:
        self.url = url
        self._control = control

    def states(self) -> dict[str, str]:
        """What it thinks of each server, by name: UP, DOWN, or on the way from one to the other."""
        with socket.socket(socket.AF_UNIX) as client:
            client.connect(str(self._control))
            client.sendall(b"show stat\n")
            lines = client.makefile().read().splitlines()
        rows = [line.split(",") for line in lines if line.startswith("proxies,")]
        return {row[1]: row[17] for row in rows if row[1] != "BACKEND"}


@contextmanager
def balancer(folder: Path, port: int, servers: Sequence[Behind]) -> Iterator[Balancer]:
    """HAProxy on that port for the time of the block. Skips the test where it is not installed."""
    program = shutil.which("haproxy") or shutil.which("haproxy", path="/usr/sbin:/usr/local/sbin")
    if program is None:
        pytest.skip("haproxy is not installed: apt-get install haproxy")
    control = folder / "haproxy.sock"
    text = CONFIG.format(socket=control, port=port, check_every=CHECK_EVERY_MS)
    for server in servers:
        text += f"    server {server.name} 127.0.0.1:{server.port} port {server.admin_port}\n"
    config = folder / "haproxy.cfg"
    config.write_text(text)
    with subprocess.Popen([program, "-f", config, "-db"], stderr=subprocess.DEVNULL) as process:
        try:
            while not control.exists():
                assert process.poll() is None, f"haproxy ended at once, code {process.returncode}"
                time.sleep(0.01)
            yield Balancer(f"http://127.0.0.1:{port}", control)
        finally:
            process.kill()
