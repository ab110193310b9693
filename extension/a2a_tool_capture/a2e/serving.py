"""Serves a plug-in over JSON lines: asyncio streams, or this process's stdin and stdout."""

from __future__ import annotations

import asyncio
import logging
import os
import sys
from collections.abc import Callable
from contextlib import suppress

from .errors import ProtocolError
from .lines import MAX_LINE_BYTES, read_lines
from .messages import ErrorMessage, ToolEvent, decode, encode
from .models import ToolErrorCode
from .plugin import A2EPlugin

MAX_PARALLEL = 64
"""Maximum number of concurrent calls per agent; further requests wait unread."""

CLOSING_GRACE_S = 1.0
"""Time after which running calls are cancelled once the agent has closed its side."""

_log = logging.getLogger(__name__)


async def respond(
    plugin: A2EPlugin, line: bytes, post: Callable[[bytes], object], max_line_bytes: int = MAX_LINE_BYTES
) -> None:
    """Respond to the message in `line`; `post` receives each line to send, events in the thread that emits them."""
    try:
        message = decode(line)
    except ProtocolError as error:
        post(encode(ErrorMessage(req_id=error.message_id, code=error.code, message=str(error))))
        return

    def post_event(event: ToolEvent) -> None:
        try:
            post(encode(event))
        except ValueError as error:
            name = getattr(message, "tool_name", "")
            _log.warning("an event of %r was not sent because its data is not JSON: %s", name, error)

    response = await plugin.answer(message, post_event)
    problem = ""
    try:
        answer = encode(response)
        if len(answer) > max_line_bytes:
            problem = f"the response has {len(answer)} bytes; the maximum is {max_line_bytes}"
    except ValueError as error:
        problem = f"the response of plug-in {plugin.name!r} is not JSON: {error}"
    if problem:
        answer = encode(ErrorMessage(req_id=message.id, code=ToolErrorCode.TOOL_ERROR, message=problem))
    post(answer)


async def serve(
    plugin: A2EPlugin,
    reader: asyncio.StreamReader,
    writer: asyncio.StreamWriter,
    *,
    max_line_bytes: int = MAX_LINE_BYTES,
) -> None:
    """Respond to requests until the agent closes its side. Invalid lines get an error response."""
    loop = asyncio.get_running_loop()
    slots = asyncio.Semaphore(MAX_PARALLEL)

    async def answer(line: bytes) -> None:
        try:
            # From any thread; the lines of each thread stay in order.
            await respond(plugin, line, lambda out: loop.call_soon_threadsafe(writer.write, out), max_line_bytes)
            await asyncio.sleep(0)  # lets posted lines be written
            await writer.drain()
        except ConnectionError:
            pass  # the agent has disconnected; reading ends too
        finally:
            slots.release()

    running: set[asyncio.Task[None]] = set()
    try:
        with suppress(ConnectionError):
            async for line in read_lines(reader, max_line_bytes):
                if line is None:
                    problem = f"a line is longer than {max_line_bytes} bytes"
                    writer.write(encode(ErrorMessage(code="invalid_message", message=problem)))
                    continue
                await slots.acquire()
                task = asyncio.create_task(answer(line))
                running.add(task)
                task.add_done_callback(running.discard)
        if running:
            await asyncio.wait(running, timeout=CLOSING_GRACE_S)
    finally:
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)


async def serve_stdio(plugin: A2EPlugin) -> None:
    """Serve the parent process over stdin and stdout. Output of tools is redirected to stderr."""
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    output = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    transport, protocol = await loop.connect_write_pipe(lambda: asyncio.streams.FlowControlMixin(loop=loop), output)
    writer = asyncio.StreamWriter(transport, protocol, None, loop)
    try:
        await serve(plugin, reader, writer)
    finally:
        writer.close()
