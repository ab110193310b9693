"""Transports between an agent and a host: in this process, or as JSON lines over a stream; and the host's loop."""

from __future__ import annotations

import asyncio
import logging
import os
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from types import TracebackType
from typing import Protocol, Self

from .messages import (
    ErrorMessage,
    HostGoneError,
    ProtocolError,
    Request,
    Response,
    ToolCallResponse,
    ToolErrorCode,
    ToolEvent,
    ToolListResponse,
    decode,
    encode,
)
from .plugin import OnEvent, ToolPlugin

MAX_LINE_BYTES = 8 * 1024 * 1024
"""Of one line, in bytes."""

_READ_BYTES = 65_536


async def read_lines(reader: asyncio.StreamReader) -> AsyncIterator[bytes | None]:
    """The lines of `reader` that are not blank, without newlines; None for a line that is too long. Of a line
    without end, no more is held than that and one piece of input. Raises ConnectionError."""
    begun, is_cut = b"", False
    while chunk := await reader.read(_READ_BYTES):
        *complete, begun = (begun + chunk).split(b"\n")
        for line in complete:
            if is_cut or len(line) > MAX_LINE_BYTES:
                yield None
            elif line.strip():
                yield line
            is_cut = False
        if len(begun) > MAX_LINE_BYTES:
            begun, is_cut = b"", True


MAX_PARALLEL = 64
"""Maximum number of concurrent calls per agent; further requests wait unread."""

CLOSING_GRACE_S = 1.0
"""Time after which running calls are cancelled once the agent has closed its side."""

_log = logging.getLogger(__name__)


async def respond(plugin: ToolPlugin, line: bytes, post: Callable[[bytes], object]) -> None:
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

    response = await plugin.handle(message, post_event)
    problem = ""
    try:
        answer = encode(response)
        if len(answer) > MAX_LINE_BYTES:
            problem = f"the response has {len(answer)} bytes; the maximum is {MAX_LINE_BYTES}"
    except ValueError as error:
        problem = f"the response of plug-in {plugin.name!r} is not JSON: {error}"
    if problem:
        answer = encode(ErrorMessage(req_id=message.id, code=ToolErrorCode.TOOL_ERROR, message=problem))
    post(answer)


async def serve(plugin: ToolPlugin, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Respond to requests until the agent closes its side. Invalid lines get an error response."""
    loop = asyncio.get_running_loop()
    slots = asyncio.Semaphore(MAX_PARALLEL)

    async def answer(line: bytes) -> None:
        try:
            # From any thread; the lines of each thread stay in order.
            await respond(plugin, line, lambda out: loop.call_soon_threadsafe(writer.write, out))
            await asyncio.sleep(0)  # lets posted lines be written
            await writer.drain()
        except ConnectionError:
            pass  # the agent has disconnected; reading ends too
        finally:
            slots.release()

    running: set[asyncio.Task[None]] = set()
    try:
        with suppress(ConnectionError):
            async for line in read_lines(reader):
                if line is None:
                    problem = f"a line is longer than {MAX_LINE_BYTES} bytes"
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


async def serve_stdio(plugin: ToolPlugin) -> None:
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


STOP_GRACE_S = 5.0
"""Time in which a host process must end after its stdin is closed."""

_IGNORED = "a message of the A2E host was ignored: %.500s"


class Transport(Protocol):
    """Sends requests and returns their responses. Exchanges may run concurrently."""

    async def exchange(self, request: Request, on_event: OnEvent) -> Response:
        """Send `request` and wait for its response; `on_event` is called in the event loop for earlier events.

        Raises HostGoneError if no response can arrive, ProtocolError if it is invalid, ValueError if the request is
        too long or not JSON.
        """
        ...


class _Waiting:
    """Requests waiting for their responses, by id. Other messages are ignored, and logged for debugging."""

    def __init__(self) -> None:
        self._answers: dict[str, tuple[asyncio.Future[Response], OnEvent]] = {}

    def add(self, request: Request, on_event: OnEvent) -> asyncio.Future[Response]:
        answer: asyncio.Future[Response] = asyncio.get_running_loop().create_future()
        self._answers[request.id] = (answer, on_event)
        return answer

    def remove(self, request: Request) -> None:
        answer, _ = self._answers.pop(request.id)
        if not answer.cancel() and not answer.cancelled():
            answer.exception()  # retrieved, so that asyncio does not log it

    def take(self, line: bytes) -> None:
        """Process a line from the host."""
        try:
            message = decode(line)
        except ProtocolError as error:
            answer, _ = self._answers.get(error.req_id, (None, None))
            if answer is not None and not answer.done():
                answer.set_exception(error)
            else:
                _log.debug(_IGNORED, error)
            return
        if not isinstance(message, ToolListResponse | ToolCallResponse | ErrorMessage | ToolEvent):
            _log.debug(_IGNORED, f"a host does not send {message.TYPE}")
            return
        answer, on_event = self._answers.get(message.req_id, (None, None))
        if answer is None or on_event is None:
            _log.debug(_IGNORED, f"{message.TYPE} for the request {message.req_id!r:.50}, which is not waiting")
        elif isinstance(message, ToolEvent):
            on_event(message)
        elif not answer.done():
            answer.set_result(message)

    def fail(self, why: str) -> None:
        """Fail all waiting requests: the connection has ended."""
        for answer, _ in self._answers.values():
            if not answer.done():
                answer.set_exception(HostGoneError(why))


class InProcessTransport:
    """A plug-in in this process, with the same messages as a remote one. Cancelling an exchange cancels the call."""

    def __init__(self, plugin: ToolPlugin) -> None:
        self._plugin = plugin
        self._waiting = _Waiting()

    async def exchange(self, request: Request, on_event: OnEvent) -> Response:
        loop = asyncio.get_running_loop()
        line = encode(request)
        answer = self._waiting.add(request, on_event)
        try:
            # From any thread; the lines of each thread stay in order.
            await respond(self._plugin, line, lambda out: loop.call_soon_threadsafe(self._waiting.take, out))
            return await answer
        finally:
            self._waiting.remove(request)


class StreamTransport:
    """A host behind a pair of asyncio streams. An async context manager; leaving it closes the stream."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._waiting = _Waiting()
        self._gone = ""
        self._sending = asyncio.Lock()

    async def __aenter__(self) -> Self:
        self._reading = asyncio.create_task(self._read())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._writer.close()
        self._reading.cancel()
        await asyncio.gather(self._reading, return_exceptions=True)
        self._lost("the transport was closed")

    async def exchange(self, request: Request, on_event: OnEvent) -> Response:
        line = encode(request)
        if len(line) > MAX_LINE_BYTES:
            raise ValueError(f"the request has {len(line)} bytes; the maximum is {MAX_LINE_BYTES}")
        if self._gone:
            raise HostGoneError(self._gone)
        answer = self._waiting.add(request, on_event)
        try:
            async with self._sending:
                self._writer.write(line)
                await self._writer.drain()
            return await answer
        except ConnectionError as error:
            raise HostGoneError(f"the request could not be sent: {error}") from None
        finally:
            self._waiting.remove(request)

    async def _read(self) -> None:
        why = "the host closed the connection"
        try:
            async for line in read_lines(self._reader):
                if line is None:
                    _log.debug(_IGNORED, f"a line longer than {MAX_LINE_BYTES} bytes")
                else:
                    self._waiting.take(line)
        except ConnectionError as error:
            why = f"the connection to the host was lost: {error}"
        self._lost(why)

    def _lost(self, why: str) -> None:
        self._gone = self._gone or why
        self._waiting.fail(self._gone)


@asynccontextmanager
async def host_process(*command: str) -> AsyncIterator[StreamTransport]:
    """Run a host (`serve_stdio`) as a child process during the block; it inherits stderr.

    At the end its stdin is closed, and after `STOP_GRACE_S` it is killed. Raises OSError if it cannot be started.
    """
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(*command, stdin=pipe, stdout=pipe)
    if process.stdin is None or process.stdout is None:  # unreachable: both were requested
        raise RuntimeError("the host has no pipes")
    try:
        async with StreamTransport(process.stdout, process.stdin) as transport:
            yield transport
        await asyncio.wait_for(process.wait(), STOP_GRACE_S)
    except TimeoutError:
        _log.warning(
            "A2E host %s did not end within %g s after its stdin was closed; killing it", command, STOP_GRACE_S
        )
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
