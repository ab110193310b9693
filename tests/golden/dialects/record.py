"""Records what the google-adk test agent puts on the wire: `python -m golden.dialects.record` in tests/.

One file for each style of google-adk (calls in messages, or in artifacts) and each scenario: for each way of asking,
a list of turns, each of which is the list of results that came.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import httpx
from support.processes import ChildProcess
from support.provision import python_environment

HERE = Path(__file__).parent
AGENT = HERE.parents[1] / "agents" / "adk_agent.py"
SCENARIOS = ("tools", "error", "code", "wait", "confirm")
METHODS = {
    "stream": ("SendStreamingMessage", "1.0"),
    "send": ("SendMessage", "1.0"),
    "stream-v0.3": ("message/stream", "0.3"),
}

Event = dict[str, Any]


def exchange(url: str, way: str, parts: list[Event], task: Event | None) -> list[Event]:
    """The results that one message leads to; `task` is the one it continues."""
    method, version = METHODS[way]
    message: Event = {"messageId": "m-1", "parts": parts, "role": "ROLE_USER" if version == "1.0" else "user"}
    if version == "0.3":
        message |= {
            "kind": "message",
            "parts": [{"kind": "text" if "text" in part else "data"} | part for part in parts],
        }
    if task is not None:
        message |= {"taskId": task["id"], "contextId": task["contextId"], "messageId": "m-2"}
    request = {"jsonrpc": "2.0", "id": 1, "method": method, "params": {"message": message}}
    response = httpx.post(url, json=request, headers={"A2A-Version": version}, timeout=30, trust_env=False)
    lines = [line.removeprefix("data: ") for line in response.text.splitlines()]
    return [json.loads(line)["result"] for line in lines if line.startswith("{")]


def confirmation(events: list[Event]) -> list[Event]:
    """The parts that answer the question google-adk asks in `events`."""
    calls = [
        part["data"]
        for event in events
        for holder in (event, event.get("statusUpdate", {}), event.get("task", {}))
        for part in (holder.get("status") or {}).get("message", {}).get("parts", [])
    ]
    data = {"id": calls[-1]["id"], "name": calls[-1]["name"], "response": {"confirmed": True}}
    return [{"data": data, "metadata": {"adk_type": "function_response"}}]


def recorded(url: str, scenario: str, way: str) -> list[list[Event]]:
    """The events of each turn."""
    turns = [exchange(url, way, [{"text": scenario}], None)]
    if scenario == "confirm":
        turns.append(exchange(url, way, confirmation(turns[0]), turns[0][0].get("task", turns[0][0])))
    return turns


def main() -> None:
    for style, arguments in (("messages", []), ("artifacts", ["--new-style"])):
        with ChildProcess([python_environment("frameworks"), AGENT, *arguments]) as agent:
            url = agent.wait_for(r"listening on (http://\S+)")[1]
            for scenario in SCENARIOS:
                ways = {way: recorded(url, scenario, way) for way in METHODS}
                text = json.dumps(ways, indent=1, ensure_ascii=False) + "\n"
                (HERE / f"adk-{style}-{scenario}.json").write_text(text, "utf-8")


if __name__ == "__main__":
    main()
