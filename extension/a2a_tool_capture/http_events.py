"""The HTTP client under a2a-sdk's: events are read from the JSON of the agent, not from the SDK's protobuf messages.

In those, every number is a double and the keys of objects have lost their order; and one that protobuf does not accept
would end the turn, where others (the proxy among them) read the rest. So the SDK gets a stand-in for each event.
"""

from __future__ import annotations

import io
import json
from collections.abc import AsyncIterator
from contextvars import ContextVar
from typing import Any

import httpx

from .json_values import read_json
from .wire import received_event, rpc_error, unread_event

_received: ContextVar[Any] = ContextVar("received")
"""The JSON of the event, or of the whole response, that this task received last; a ValueError for what is no JSON."""

_TASK = {"id": "-", "contextId": "-"}
_STAND_IN = {
    "task": {**_TASK, "status": {"state": "TASK_STATE_WORKING"}},
    **_TASK,
    "kind": "task",
    "status": {"state": "working"},
}
"""What the SDK accepts as an answer to any request, in each version of A2A."""


def last_received(*, in_envelope: bool, in_stream: bool) -> dict[str, Any]:
    """The event that the current task received last, read as by `wire.received_event`."""
    payload = _received.get()
    if isinstance(payload, ValueError):
        return unread_event("malformed_response", f"not JSON: {payload}")
    return received_event(payload, in_envelope=in_envelope, in_stream=in_stream)


def last_error() -> Any:
    """The error that the current task received last, in place of an event; None if it received none."""
    return rpc_error(_received.get())


class EventClient(httpx.AsyncClient):
    """Keeps what it receives for `last_received`: whole responses when they are read, streams event by event.

    `in_envelope`: whether answers are JSON-RPC. As long as it is None, responses are no events, and not kept.
    """

    in_envelope: bool | None = None

    async def send(self, request: httpx.Request, *, stream: bool = False, **options: Any) -> httpx.Response:
        response = await super().send(request, stream=stream, **options)
        if self.in_envelope is None or not response.is_success:
            return response
        if stream:
            return _EventStream(response, self.in_envelope)
        return httpx.Response(200, text=_kept(response.text, self.in_envelope), request=request)


def _kept(text: str, in_envelope: bool) -> str:
    """Keep an event for `last_received`; returns what the SDK reads in its place: an error as it is."""
    try:
        payload = read_json(text)
    except ValueError as error:
        payload = error
    except RecursionError:
        payload = ValueError("nested too deeply")
    _received.set(payload)
    if not in_envelope:
        return json.dumps(_STAND_IN)
    return text if rpc_error(payload) else json.dumps({"jsonrpc": "2.0", "id": 0, "result": _STAND_IN})


class _EventStream(httpx.Response):
    def __init__(self, response: httpx.Response, in_envelope: bool) -> None:
        super().__init__(
            response.status_code,
            headers=response.headers,
            stream=response.stream,
            request=response.request,
            extensions=response.extensions,
        )
        self._in_envelope = in_envelope

    async def aread(self) -> bytes:
        await super().aread()
        return _kept(self.text, self._in_envelope).encode()

    async def aiter_lines(self) -> AsyncIterator[str]:
        """Lines as server-sent events have them: httpx also splits at U+2028 and others, which JSON may hold."""
        newlines = io.IncrementalNewlineDecoder(None, translate=True)
        unfinished: list[str] = []
        data: list[str] = []
        async for chunk in self.aiter_text():
            text = newlines.decode(chunk)
            if "\n" not in text:
                unfinished.append(text)
                continue
            *lines, rest = ("".join(unfinished) + text).split("\n")
            unfinished = [rest]
            for line in lines:
                if line.startswith("data:"):
                    data.append(line[5:].removeprefix(" "))
                elif not line and any(data):
                    yield "data: " + _kept("\n".join(data), self._in_envelope)
                    yield ""
                    data.clear()
