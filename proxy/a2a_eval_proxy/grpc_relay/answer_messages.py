"""What the client gets of the messages of an answer."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import orjson
from a2a_tool_capture.wire import unknown_fields

from ..body_memory import SMALL_BYTES, HeldBody
from ..clock import CLOCK
from ..net.grpc_wire import GrpcMessage, MessageReader
from ..net.http2_streams import Fields
from ..protocol.answers import ReadAnswer, read_answer
from ..protocol.operations import A2ARequest
from ..relay.answer_readers import UnreadableAnswerError
from ..relay.relayed_exchange import RelayedExchange
from .message_filter import MessageFilter
from .messages import A2AMethod, as_json, decoded


class AnswerMessages:
    """Reads the messages of an answer, whatever the cardinality of its method, in order."""

    def __init__(
        self,
        exchange: RelayedExchange,
        method: A2AMethod,
        head: Fields,
        held: HeldBody,
        show: Callable[[bytes], Awaitable[None]],
        changed: Callable[[bytes], Awaitable[bytes]],
    ) -> None:
        """`head`: that of the answer. `held`: of the message that is read. `show` gives bytes to the client, and
        returns once it has taken them; `changed`: a message with the addresses that it is to have."""
        self._exchange = exchange
        self._method = method
        self._head = head
        self._held = held
        self._show = show
        self._changed = changed
        self._asked = exchange.asked and not exchange.requested
        """Whether nothing may pass that names the extension and cannot be read."""
        self._reader = MessageReader(exchange.max_bytes)
        self._filter = None
        if exchange.shows_tasks and not exchange.requested:
            self._filter = MessageFilter(method.response_type, exchange.keeps)

    async def feed(self, data: bytes) -> None:
        """Part of the answer has arrived: the client gets the messages that are complete.

        Raises UnreadableAnswerError, or MessageTooLargeError.
        """
        for message in self._reader.feed(data):
            frame = await self._frame(message)
            del message  # of which there may be a large copy in the frame
            await self._show(frame)
            self._held.drop()
        if self._reader.expected > SMALL_BYTES:
            await self._held.wait(self._reader.expected - self._held.size)

    async def _frame(self, message: GrpcMessage) -> bytes:
        """What the client gets of a message; capture is told of it. Raises UnreadableAnswerError."""
        exchange, request = self._exchange, self._exchange.request
        try:
            received = await self._held.decoded(message.decoding(self._head, exchange.max_bytes), waits=self._asked)
        except ValueError as error:
            if self._asked:
                raise UnreadableAnswerError(str(error)) from None
            self._unread(error)
            return message.frame
        content = await self._changed(received)
        shown: bytes | None = content
        if request is not None and exchange.shows_tasks:
            shown, answer = await self._held.parse(len(content), self._read, content, request)
            if answer is not None and exchange.unreadable is None:
                if self._method.streams:
                    exchange.event(answer.data, answer, CLOCK.now())
                else:
                    exchange.part(answer.data, CLOCK.now())
                    exchange.answer(200, answer, CLOCK.now())
        if shown is None:
            return b""
        return message.frame if shown is received else GrpcMessage(shown).frame

    def _read(self, content: bytes, request: A2ARequest) -> tuple[bytes | None, ReadAnswer | None]:
        """What the client gets of a message (None: nothing), and the message as it is read; None where it cannot be.

        Raises UnreadableAnswerError where the extension cannot be removed.
        """
        shown: bytes | None = content
        try:
            if self._filter is not None:
                shown = self._filter.shown(content)
        except ValueError as error:
            if self._asked:
                raise UnreadableAnswerError(str(error)) from None
        try:
            fields = as_json(decoded(self._method.response_type, content)) or unknown_fields(content)
        except ValueError as error:
            self._unread(error)
            return shown, None
        return shown, read_answer(orjson.dumps(fields), request, in_stream=self._method.streams, payload=fields)

    def _unread(self, why: ValueError) -> None:
        self._exchange.stop_reading("unreadable_message", f"a message of the agent cannot be read: {why}")
