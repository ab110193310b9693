"""Calls over gRPC: what the proxy costs, and adds to a direct call."""

from __future__ import annotations

import asyncio
import os
import statistics
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import grpc.aio
from a2a.types import SendMessageRequest
from support.processes import ChildProcess
from support.raw_http2 import RawClient, framed

from . import procfs
from .part import BehaviourError, Measured, Part, Plan, Setting
from .report import DIRECT, Metric, Values, ms, per
from .revision import checked_out, environment_of
from .subjects.grpc_agent import EVENTS

PROXY = "a2a-eval-proxy"
METRICS = (
    Metric("grpc_p50_ms", "call p50, ms", "1 at a time"),
    Metric("grpc_us", "CPU per call, µs", "1 at a time"),
    Metric("grpc_event_us", "CPU per event, µs", f"streams of {EVENTS}, 1 at a time"),
    Metric("grpc_unread_mb", "memory above idle, MB", "60 clients that read nothing of messages of 1 to 16 MiB"),
)
LARGEST_MIB = 16
_AGENT = Path(__file__).parent / "subjects/grpc_agent.py"
_CALLS_PER_S = 200


def grpc_part(against: str | None = None) -> Part:
    """The part; also of the proxy of the revision or folder `against`."""
    earlier = f"{PROXY} at {against}"

    def measure(setting: Setting) -> Measured:
        trees: dict[str, Path | None] = {PROXY: None}
        if against is not None:
            trees[earlier] = checked_out(against, setting.folder)
        return _measure(setting, trees)

    return Part("grpc", METRICS, PROXY, (DIRECT, earlier), measure)


def _measure(setting: Setting, trees: dict[str, Path | None]) -> Measured:
    """The agent runs with the client, on the other CPUs. Rounds alternate between direct and proxied calls."""
    calls = round(_CALLS_PER_S * setting.plan.unary_s)
    with ChildProcess([sys.executable, _AGENT]) as agent, ExitStack() as stack:
        upstream = agent.wait_for(r"listening on (?P<address>\S+)")["address"]
        targets: dict[str, tuple[str, int | None]] = {}
        for name, tree in trees.items():
            targets[name] = _started(setting, stack, upstream, tree)
            asyncio.run(_calls(targets[name][0], calls // 4))
        targets[DIRECT] = upstream, None
        measured = Measured([*targets])
        for number in range(1, setting.plan.rounds + 1):
            values = measured.next_round()
            for name, (address, pid) in targets.items():
                setting.progress(f"round {number} of {setting.plan.rounds}: gRPC, {name}")
                values[name] = _values(address, pid, calls)
        for name, (address, pid) in targets.items():  # what it leaves behind would cost CPU in the rounds
            if pid is not None:
                setting.progress(f"clients that read nothing: gRPC, {name}")
                values[name]["grpc_unread_mb"] = _unread_bytes(setting.plan, address, pid) / 1e6
    return measured


def _started(setting: Setting, stack: ExitStack, upstream: str, tree: Path | None) -> tuple[str, int]:
    """The gRPC address and the process of a proxy, of this environment or of the packages in `tree`."""
    folder = Path(tempfile.mkdtemp(dir=setting.folder))
    command = [sys.executable, "-m", "a2a_eval_proxy", "serve", "--negotiate", "always", "--no-otlp"]
    command += ["--log-level", "warning"]
    command += [part for name in ("--grpc", "--listen", "--admin") for part in (name, "127.0.0.1:0")]
    command += ["--upstream", f"grpc://{upstream}", "--store", str(folder / "turns.db")]
    proxy = stack.enter_context(ChildProcess(command, cwd=folder, environment=environment_of(tree)))
    address = proxy.wait_for(r" gRPC (?P<address>[^\s,]+),")["address"]
    for thread in Path(f"/proc/{proxy.process.pid}/task").iterdir():
        os.sched_setaffinity(int(thread.name), setting.subject_cpus)
    return address, proxy.process.pid


def _values(address: str, pid: int | None, calls: int) -> Values:
    def cpu() -> float | None:
        return None if pid is None else procfs.cpu_seconds(pid)

    before = cpu()
    took = asyncio.run(_calls(address, calls))
    between = cpu()
    events = asyncio.run(_streams(address, max(1, calls // 20)))
    after = cpu()
    values: Values = {"grpc_p50_ms": ms(statistics.median(took) * 1e6)}
    if before is not None and between is not None and after is not None:
        values |= {"grpc_us": per(between - before, calls), "grpc_event_us": per(after - between, events)}
    return values


def _unread_bytes(plan: Plan, address: str, pid: int) -> int:
    """What clients cost at the highest that ask for large messages and read nothing of them."""
    idle = procfs.rss_bytes(pid)
    procfs.forget_peak(pid)
    with ExitStack() as stack:
        for number in range(plan.unread_clients):
            client = stack.enter_context(RawClient(address))
            stream_id = client.begin(b"/lf.a2a.v1.A2AService/SendStreamingMessage", [(b"a2a-version", b"1.0")])
            request = framed(_request(str(1 + number % LARGEST_MIB)))
            client.h2.send_data(stream_id, request, end_stream=True)
            client.flush()
        time.sleep(plan.unread_s)
        return procfs.peak_rss_bytes(pid) - idle


async def _calls(address: str, calls: int) -> list[float]:
    """Seconds that each call took."""
    took = []
    async with grpc.aio.insecure_channel(address) as channel:
        send, data = channel.unary_unary("/lf.a2a.v1.A2AService/SendMessage"), _request()
        for _ in range(calls):
            began = time.perf_counter()
            answer = await send(data, metadata=[("a2a-version", "1.0")])
            took.append(time.perf_counter() - began)
            if b"0123456789abcdef" not in answer:
                raise BehaviourError(f"{address} did not answer with the task")
    return took


async def _streams(address: str, streams: int) -> int:
    """How many events came."""
    events = 0
    async with grpc.aio.insecure_channel(address) as channel:
        send: Any = channel.unary_stream("/lf.a2a.v1.A2AService/SendStreamingMessage")
        for _ in range(streams):
            async for _event in send(_request(), metadata=[("a2a-version", "1.0")]):
                events += 1
    if events != streams * EVENTS:
        raise BehaviourError(f"{address} sent {events} events; expected {streams * EVENTS}")
    return events


def _request(text: str = "hi") -> bytes:
    message = {"message_id": "m", "role": "ROLE_USER", "parts": [{"text": text}]}
    request: bytes = SendMessageRequest(message=message).SerializeToString()
    return request
