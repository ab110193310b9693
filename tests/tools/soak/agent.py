"""An A2A agent for the soak: answers name their request, carry tool calls to who asks, and come in all sizes.

`python -m tools.soak.agent PORT` serves until it is killed.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import sys
from collections.abc import AsyncIterator
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

URI = "https://arksim.arklex.ai/a2a/tool-call-capture/v1"
CARD_PATH = "/.well-known/agent-card.json"
NAME = "soak"


def main() -> None:
    routes = [
        Route(CARD_PATH, _card),
        Route("/", _rpc, methods=["POST"]),
        Route("/upload", _upload, methods=["POST"]),
    ]
    uvicorn.run(Starlette(routes=routes), host="127.0.0.1", port=int(sys.argv[1]), log_level="error", access_log=False)


async def _card(request: Request) -> Response:
    port = request.url.port
    return JSONResponse(
        {
            "name": NAME,
            "description": "Echoes",
            "version": "1",
            "capabilities": {"streaming": True, "extensions": [{"uri": URI, "required": False}]},
            "defaultInputModes": ["text/plain"],
            "defaultOutputModes": ["text/plain"],
            "skills": [],
            "supportedInterfaces": [
                {"url": f"http://127.0.0.1:{port}/", "protocolBinding": "JSONRPC", "protocolVersion": "1.0"}
            ],
        }
    )


async def _rpc(request: Request) -> Response:
    """`SendMessage` or `SendStreamingMessage`; the message's text is JSON: token, events, size, pause_s."""
    call = await request.json()
    wish = json.loads(call["params"]["message"]["parts"][0]["text"])
    asked = URI in request.headers.get("a2a-extensions", "")
    if call["method"] == "SendMessage":
        artifacts = [_artifact(wish, number, asked=asked) for number in range(wish["events"])]
        task = {**_task(wish), "status": {"state": "TASK_STATE_COMPLETED"}, "artifacts": artifacts}
        return JSONResponse({"jsonrpc": "2.0", "id": call["id"], "result": {"task": task}})
    return StreamingResponse(_events(call["id"], wish, asked=asked), media_type="text/event-stream")


async def _events(call_id: Any, wish: dict[str, Any], *, asked: bool) -> AsyncIterator[bytes]:
    def event(result: dict[str, Any]) -> bytes:
        return b"data: %b\n\n" % json.dumps({"jsonrpc": "2.0", "id": call_id, "result": result}).encode()

    ids = {"taskId": wish["token"], "contextId": wish["token"]}
    yield event({"task": {**_task(wish), "status": {"state": "TASK_STATE_WORKING"}}})
    for number in range(wish["events"]):
        await asyncio.sleep(wish["pause_s"])
        yield event({"artifactUpdate": {**ids, "artifact": _artifact(wish, number, asked=asked), "lastChunk": True}})
    yield event({"statusUpdate": {**ids, "status": {"state": "TASK_STATE_COMPLETED"}}})


def _task(wish: dict[str, Any]) -> dict[str, Any]:
    return {"id": wish["token"], "contextId": wish["token"]}


def _artifact(wish: dict[str, Any], number: int, *, asked: bool) -> dict[str, Any]:
    text = wish["token"] * (1 + wish["size"] // len(wish["token"]))
    artifact: dict[str, Any] = {"artifactId": f"{number}", "parts": [{"text": text}]}
    if asked:
        call = {"id": f"{number}", "name": "look_up", "arguments": {"of": wish["token"]}, "result": "found"}
        artifact |= {"extensions": [URI], "metadata": {f"{URI}/tool_calls": [call]}}
    return artifact


async def _upload(request: Request) -> Response:
    digest, size = hashlib.sha256(), 0
    async for piece in request.stream():
        digest.update(piece)
        size += len(piece)
    return JSONResponse({"token": request.query_params["token"], "size": size, "sha256": digest.hexdigest()})


if __name__ == "__main__":
    main()
