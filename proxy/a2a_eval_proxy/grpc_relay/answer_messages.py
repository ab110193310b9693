"""What the client gets of the messages of an answer."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial

import orjson
from a2a_tool_capture.wire import unknown_fields

from ..body_memory import HeldBody
from ..net.grpc_wire import GrpcMessage
from ..net.http2_streams import Fields
from ..protocol.answers import ReadAnswer, read_answer
from ..relay.answer_readers import Rules, UnreadableAnswerError
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
        rules: Rules,
        held: HeldBody,
        restored: Callable[[bytes], Awaitable[bytes]],
    ) -> None:
        """`head`: that of the answer. `held`: the message that is read is. `restored`: see `relay.answer_readers`."""
        self._held = held
        self._restored = restored
        self._exchange = exchange
        self._method = method
        self._head = head
        self._rules = rules
        self._filter = None
        if rules.strips and exchange.shows_tasks:
            self._filter = MessageFilter(method.response_type, exchange.keeps)

    async def shown(self, message: GrpcMessage, now: float) -> GrpcMessage | None:
        """The message for the client, if any; capture is told of it. Raises UnreadableAnswerError."""
        try:
            steps = message.decoding(self._head, self._exchange.max_bytes)
            received = await self._held.decoded(steps, waits=self._rules.asked)
        except ValueError as error:
            if self._rules.asked:
                raise UnreadableAnswerError(str(error)) from None
            self._unread(str(error))
            return message
        content = received
        if self._rules.restores is not None and self._rules.restores(content):
            content = await self._restored(content)
        if not self._exchange.shows_tasks:
            return message if content is received else GrpcMessage(content)
        shown, answer, unread = await self._held.parse(partial(self._shown, content), len(content))
        if unread:
            self._unread(unread)
        elif answer is not None and self._exchange.unreadable is None:
            if self._method.streams:
                self._exchange.event(answer.data, answer, now)
            else:
                self._exchange.part(answer.data, now)
                self._exchange.answer(200, answer, now)
        if shown is received:
            return message
        return None if shown is None else GrpcMessage(shown)

    def _unread(self, why: str) -> None:
        self._exchange.stop_reading("unreadable_message", f"a message of the agent cannot be read: {why}")

    def _shown(self, content: bytes) -> tuple[bytes | None, ReadAnswer | None, str]:
        """What the client gets of a message (None: nothing), the message as it is read, and why it cannot be read.

        Raises UnreadableAnswerError where the extension cannot be removed.
        """
        shown: bytes | None = content
        try:
            if self._filter is not None:
                shown = self._filter.shown(content)
        except ValueError as error:
            if self._rules.asked:
                raise UnreadableAnswerError(str(error)) from None
        request = self._exchange.request
        if request is None:
            return shown, None, ""
        try:
            fields = as_json(decoded(self._method.response_type, content)) or unknown_fields(content)
        except ValueError as error:
            return shown, None, str(error)
        return shown, read_answer(orjson.dumps(fields), request, in_stream=self._method.streams, payload=fields), ""
