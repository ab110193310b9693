"""What an agent can make the proxy keep of open turns: measured as the memory of a process of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from a2a_eval_proxy.capture.exchange import RequestFacts
from a2a_eval_proxy.capture.turn_book import TurnBook
from a2a_eval_proxy.memory import MIB
from a2a_tool_capture import METADATA_KEY, URI
from support.read_exchange import ReadExchange

WORKING = "TASK_STATE_WORKING"

LIMIT = 8 * MIB
MOST = 3 * LIMIT
"""The limit, what the allocator cannot use of freed memory, and an event that is being read."""

RECEIVED = 6 * LIMIT
"""The memory of what is sent, if everything were kept."""


def artifact(number: object, *calls: Any, text: str = "") -> dict[str, Any]:
    return {
        "artifactId": f"a{number}",
        "extensions": [URI],
        "parts": [{"text": text}],
        "metadata": {METADATA_KEY: calls},
    }


def call(number: object, **arguments: Any) -> dict[str, Any]:
    return {"id": f"c{number}", "name": "f", "arguments": arguments}


def chunk(content: dict[str, Any]) -> dict[str, Any]:
    return {"artifactUpdate": {"taskId": "t", "artifact": content}}


def nested(depth: int) -> Any:
    value: Any = {}
    for _ in range(depth):
        value = {"a": [value]}
    return value


def events(attack: str) -> Iterator[dict[str, Any]]:
    """What an agent sends in one stream, without an end."""
    for number in count():
        match attack:
            case "many tiny parts":
                yield chunk(artifact(number, call(number, a=[[], {}] * 5_000)))
            case "deep nesting":
                yield chunk(artifact(number, *(call(f"{number}-{other}", a=nested(30)) for other in range(50))))
            case "one huge string":
                yield chunk(artifact(number, call(number, a=f"\U0001f600{number}" + "x" * MIB)))
            case "snapshots that replace each other":
                calls = [call(f"{number}-{other}", a=[[]] * 1_000) for other in range(10)]
                yield {
                    "task": {"id": "t", "status": {"state": "TASK_STATE_WORKING"}, "artifacts": [artifact(0, *calls)]}
                }


ATTACKS = {
    "many tiny parts": 700_000,
    "deep nesting": 50 * 30 * 250,
    "one huge string": 4 * MIB,
    "snapshots that replace each other": 10 * 1_000 * 64,
}
"""The memory that an event takes, about."""


def serve(attack: str) -> None:
    """Read the events of two streams, and print the growth of the memory of this process."""
    evicted = []
    book = TurnBook(lambda turn: None, max_open_bytes=LIMIT, on_evicted=evicted.append)
    numbers = count()
    send = {"jsonrpc": "2.0", "id": 1, "method": "SendStreamingMessage", "params": {"message": {"parts": []}}}
    before = resident()
    most = 0
    streams: list[tuple[ReadExchange, Iterator[dict[str, Any]]]] = []
    for step in range(RECEIVED // ATTACKS[attack]):
        if len(streams) < 2 or step % 1_000 == 0:
            facts = RequestFacts("run", "http://agent", "1.0", None, "", "", True, False, 0.0)
            exchange = ReadExchange(book, facts, f"turn-{next(numbers)}")
            exchange.request(None, json.dumps(send).encode(), 0.0)
            streams = [*streams[-1:], (exchange, events(attack))]
        exchange, sent = streams[step % 2 if len(streams) > 1 else 0]
        event = next(sent)
        kind = event.get("task") or event["artifactUpdate"]
        kind["id" if "task" in event else "taskId"] = f"t{id(exchange)}"
        exchange.event(json.dumps({"jsonrpc": "2.0", "id": 1, "result": event}).encode(), 1.0)
        most = max(most, resident())
    print(most - before)


def resident() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.parametrize("attack", ATTACKS)
def test_an_agent_cannot_make_the_proxy_keep_more_than_the_limit(attack: str) -> None:
    found = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run([sys.executable, __file__, attack], capture_output=True, text=True, check=True, env=found)
    assert int(done.stdout) < MOST


if __name__ == "__main__":
    serve(sys.argv[1])
