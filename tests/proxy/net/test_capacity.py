"""What the clients of all ports share, without a socket, and how many files the system leaves for them."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from typing import Any

import pytest
from a2a_eval_proxy.body_memory import BodyMemory, HeldBody
from a2a_eval_proxy.net.client_limits import FREE_BYTES, GRACE_S, TAKEN_WITHIN_S, Capacity, ClientLimits, Clients
from support.patience import PATIENCE_S


def crowd(capacity: Capacity, clients: Clients, size: int) -> int:
    """How many of `size` connections the port keeps."""
    for _ in range(size):
        one: Any = object()
        clients.connections.add(one)
        if not capacity.admits(clients, 0.0):
            clients.connections.discard(one)
    return len(clients.connections)


@pytest.mark.parametrize(
    ("first", "data_then", "admin_then"),
    [("data", 100, 16), ("admin", 50, 66), ("grpc", 25, 16)],
)
def test_no_port_takes_what_is_reserved_for_others(first: str, data_then: int, admin_then: int) -> None:
    capacity = Capacity(100)
    ports = {
        "data": capacity.port(ClientLimits(), 4 if first == "grpc" else 2),
        "admin": capacity.port(ClientLimits()),
    }
    if first == "grpc":
        ports["grpc"] = capacity.port(ClientLimits(), 4)
    crowd(capacity, ports[first], 500)
    assert crowd(capacity, ports["data"], 500) == data_then
    assert crowd(capacity, ports["admin"], 500) == admin_then
    assert sum(len(one.connections) for one in ports.values()) <= 100 + 16


def test_without_a_number_every_connection_is_kept() -> None:
    capacity = Capacity()
    assert crowd(capacity, capacity.port(ClientLimits()), 50) == 50


def test_what_connections_hold_is_bounded_and_little_of_each_is_free() -> None:
    capacity = Capacity(held_bytes=1_000)
    assert all(capacity.hold(0, FREE_BYTES, 0.0) for _ in range(100))
    assert capacity.hold(FREE_BYTES, FREE_BYTES + 1_000, 0.0)
    assert not capacity.hold(0, FREE_BYTES + 1, 0.0)
    assert capacity.hold(0, FREE_BYTES, 0.0)
    assert capacity.hold(FREE_BYTES + 1_000, 0, 0.0)
    assert capacity.hold(0, FREE_BYTES + 1_000, 0.0)


async def test_clients_have_less_time_while_others_wait() -> None:
    bodies = BodyMemory(0)
    capacity = Capacity(held_bytes=0, bodies=bodies)
    assert capacity.patience(60.0, 100.0) == 60.0
    assert not capacity.hold(0, FREE_BYTES + 1, 100.0)
    assert capacity.patience(60.0, 101.0) == GRACE_S
    assert capacity.idle_s(60.0, 101.0) == 60.0, "without a request a connection holds no memory"
    assert capacity.patience(1.0, 101.0) == 1.0
    assert capacity.patience(60.0, 100.0 + GRACE_S) == 60.0
    assert capacity.taking_s(60.0, 200.0) == 60.0
    await HeldBody(bodies).wait(1)
    waiting = asyncio.ensure_future(HeldBody(bodies).wait(1))
    await asyncio.sleep(0)
    assert (capacity.patience(60.0, 200.0), capacity.taking_s(60.0, 200.0)) == (GRACE_S, TAKEN_WITHIN_S)
    waiting.cancel()


def test_connections_without_a_request_have_less_time_while_others_are_turned_away() -> None:
    capacity = Capacity(1)
    clients = capacity.port(ClientLimits(), 1)
    assert crowd(capacity, clients, 2) == 1
    assert (capacity.idle_s(60.0, 1.0), capacity.patience(60.0, 1.0)) == (GRACE_S, GRACE_S)
    assert capacity.idle_s(60.0, GRACE_S) == 60.0


# ── where the system allows few open files ──────────────────────────────────────────────────────────────────


PROGRAM = """
import resource, sys
from a2a_eval_proxy.net.client_limits import connections_possible
soft, hard = map(int, sys.argv[1:])
resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
print(connections_possible(1000), resource.getrlimit(resource.RLIMIT_NOFILE)[0])
"""


@pytest.mark.parametrize(
    ("soft", "hard", "expected"),
    [
        (200, 200, "36 200"),
        (100, 1128, "500 1128"),
        (100, 4000, "1000 2128"),
        (3000, 4000, "1000 3000"),
        (60, 60, "1 60"),
    ],
)
def test_clients_leave_files_for_the_rest(soft: int, hard: int, expected: str) -> None:
    """A limit can only be lowered, so a process of its own takes it."""
    command = [sys.executable, "-c", PROGRAM, str(soft), str(hard)]
    run = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    assert run.stdout.strip() == expected, run.stderr
