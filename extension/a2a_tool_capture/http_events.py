"""The HTTP client under a2a-sdk's: it keeps the JSON of each event, of which the SDK returns protobuf messages.

In those, every number is a double and the keys of objects have lost their order.
"""

from __future__ import annotations

import io
from collections.abc import AsyncIterator
from contextvars import ContextVar
from typing import Any

import httpx

from .json_values import read_json

_received: ContextVar[str] = ContextVar("received")
"""Text of the event, or of the whole response, that this task received last."""


def last_received() -> Any:
    """The JSON that the current task received last, by `read_json`. Raises ValueError for text that is not JSON."""
    return read_json(_received.get())


class EventClient(httpx.AsyncClient):
    """Keeps what it receives for `last_received`: whole responses when they are read, streams event by event."""

    async def send(self, request: httpx.Request, *, stream: bool = False, **options: Any) -> httpx.Response:
        response = await super().send(request, stream=stream, **options)
        if not stream:
            _received.set(response.text)
            return response
        return _EventStream(
            response.status_code,
            headers=response.headers,
            stream=response.stream,
            request=response.request,
            extensions=response.extensions,
        )


class _EventStream(httpx.Response):
    async def aread(self) -> bytes:
        content = await super().aread()
        _received.set(self.text)
        return content

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
                elif not line:
                    _received.set("\n".join(data))
                    data.clear()
                yield line
