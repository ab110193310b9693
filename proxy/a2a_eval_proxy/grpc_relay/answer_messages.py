"""What the client gets of the messages of an answer. Sans-io: its shell does `Steps`."""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

import orjson
from a2a_tool_capture.wire import unknown_fields

from ..net.grpc_wire import GrpcMessage
from ..net.http2_streams import Fields
from ..protocol.answers import ReadAnswer, read_answer
from ..relay.answer_readers import Rules, UnreadableAnswerError
from ..relay.relayed_exchange import RelayedExchange
from ..relay.steps import OwnUrls, Steps, parsed
from ..relay.steps import decoded as decoded_within
from .message_filter import MessageFilter
from .messages import A2AMethod, as_json, decoded


class _ShownMessage(NamedTuple):
    """A message for its client and for capture."""

    content: bytes | None
    """None: the client gets nothing of it."""
    answer: ReadAnswer | None
    unread: str = ""
    """Why there is no answer."""
    problem: str = ""
    """Why the extension cannot be removed."""


class AnswerMessages:
    """Reads the messages of an answer, whatever the cardinality of its method, in order."""

    def __init__(self, exchange: RelayedExchange, method: A2AMethod, head: Fields, rules: Rules) -> None:
        """`head`: that of the answer."""
        self._exchange = exchange
        self._method = method
        self._head = head
        self._rules = rules
        self._filter = None
        if rules.strips and exchange.shows_tasks:
            self._filter = MessageFilter(method.response_type, exchange.keeps)

    def shown(self, message: GrpcMessage, now: float) -> Steps[GrpcMessage | None]:
        """The message for the client, if any; capture is told of it. Raises UnreadableAnswerError."""
        try:
            steps = message.decoding(self._head, self._exchange.max_bytes)
            received = yield from decoded_within(steps, waits=self._rules.asked)
        except ValueError as error:
            self._unread(str(error))
            return message
        content = received
        if self._rules.restores is not None and self._rules.restores(content):
            content = yield OwnUrls(content)
        if not self._exchange.shows_tasks:
            return message if content is received else GrpcMessage(content)
        shown = yield from parsed(partial(self._shown, content), len(content))
        if shown.problem:
            raise UnreadableAnswerError(shown.problem)
        if shown.unread:
            self._exchange.stop_reading("unreadable_message", f"a message of the agent cannot be read: {shown.unread}")
        elif shown.answer is not None and self._exchange.unreadable is None:
            self._report(shown.answer, now)
        if shown.content is received:
            return message
        return None if shown.content is None else GrpcMessage(shown.content)

    def _unread(self, why: str) -> None:
        if self._rules.asked:
            raise UnreadableAnswerError(why)
        self._exchange.stop_reading("unreadable_message", f"a message of the agent cannot be read: {why}")

    def _shown(self, content: bytes) -> _ShownMessage:
        shown: bytes | None = content
        try:
            if self._filter is not None:
                shown = self._filter.shown(content)
        except ValueError as error:
            if self._rules.asked:
                return _ShownMessage(None, None, problem=str(error))
        try:
            return _ShownMessage(shown, self._read(content))
        except ValueError as error:
            return _ShownMessage(shown, None, unread=str(error))

    def _read(self, content: bytes) -> ReadAnswer | None:
        """The message as JSON. Raises ValueError."""
        request = self._exchange.request
        if request is None:
            return None
        fields = as_json(decoded(self._method.response_type, content)) or unknown_fields(content)
        return read_answer(orjson.dumps(fields), request, in_stream=self._method.streams, payload=fields)

    def _report(self, answer: ReadAnswer, now: float) -> None:
        if self._method.streams:
            self._exchange.event(answer.data, answer, now)
        else:
            self._exchange.reports.part(answer.data, now)
            self._exchange.answer(200, answer, now)
