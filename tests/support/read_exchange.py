"""An exchange of capture, which gets what the relay reads of the bodies that pass."""

from __future__ import annotations

from a2a_eval_proxy.capture.captured_exchange import CapturedExchange, ReadRequest
from a2a_eval_proxy.capture.turn_book import TurnBook
from a2a_eval_proxy.protocol.answers import ReadAnswer, read_answer
from a2a_eval_proxy.protocol.operations import A2ARequest, parsed_request
from a2a_eval_proxy.turn import Turn
from a2a_tool_capture import Finding


class ReadExchange:
    def __init__(self, book: TurnBook, turn: Turn, *, asked_by_header: bool = False) -> None:
        self._exchange = CapturedExchange(book, turn, asked_by_header=asked_by_header)
        self._by_header = asked_by_header
        self._request: A2ARequest | None = None
        self.task_ids: list[str] = []

    def request(self, rest: A2ARequest | None, body: bytes, now: float) -> None:
        found = parsed_request(rest, body)
        self._request = found.request
        self._exchange.request(ReadRequest(found.request, self._by_header or found.asks, task_ids=self.task_ids), now)

    def unread_request(self, request: A2ARequest | None, now: float) -> None:
        why = "request_too_large", "it is too large"
        self._request = request
        if request is not None:
            request.has_webhook = True  # it may have one
        self._exchange.request(ReadRequest(request, self._by_header, why, task_ids=self.task_ids), now)

    def event(self, data: bytes, now: float) -> None:
        if self._request is not None:
            self._exchange.event(self._learnt(read_answer(data, self._request, in_stream=True)), now)

    def answer(self, status: int, body: bytes, now: float) -> None:
        if self._request is not None:
            self._exchange.answer(status, self._learnt(read_answer(body, self._request, in_stream=False)), now)

    def _learnt(self, answer: ReadAnswer) -> ReadAnswer:
        self.task_ids += [task_id for task_id in answer.task_ids if task_id not in self.task_ids]
        return answer

    def end(self, now: float, *, problem: Finding | None = None, lost: bool = False) -> None:
        self._exchange.end(now, problem=problem, lost=lost)

    @property
    def turn(self) -> Turn | None:
        return self._exchange.turn
