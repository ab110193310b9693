"""The client of a check: fetches the card, sends the requests of operations, and reads their answers."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable, Mapping
from dataclasses import replace
from math import ceil

import httpx
from a2a_tool_capture.client import AgentError, AgentUnreachableError, ConfigurationError
from a2a_tool_capture.errors import connection_problem
from a2a_tool_capture.secret_references import resolve_header
from a2a_tool_capture.spec import EXTENSIONS_HEADER, LEGACY_EXTENSIONS_HEADER
from google.protobuf.message import DecodeError
from google.rpc.error_details_pb2 import ErrorInfo
from google.rpc.status_pb2 import Status

from ...protocol.agent_card import WELL_KNOWN_PATHS
from ...protocol.operations import Binding, decode_json
from ...protocol.sse import EventTooLargeError
from .answer import GrpcEnd
from .record import CardSeen, GrpcError, OperationRequest, ProbeExchange, ProbeRequest, ResponseEvent
from .requests import STREAMING, get
from .responses import is_settled, read_response, settled
from .transport import MAX_BODY_BYTES, AgentTransport

POLL_S = 0.25
"""Seconds between two reads of a task that has not ended."""
CLOSING_GRACE_S = 1.0
"""Seconds to read a stream after the task is settled: a last snapshot may follow."""

_GIVEN_UP = frozenset({"UNAVAILABLE", "DEADLINE_EXCEEDED"})
"""Statuses of calls that no agent answered; an agent may send them, too."""

_SET_BY_CHECK = frozenset({EXTENSIONS_HEADER.lower(), LEGACY_EXTENSIONS_HEADER.lower(), "a2a-version"})

Listener = Callable[[ResponseEvent], None]


class ProbeClient(AgentTransport):
    """Client of a check for one agent. Use as async context manager.

    Every request carries `headers`; in their values, `${NAME}` is an environment variable and `${file:PATH}` the
    contents of a file. `timeout_s` is the maximum number of seconds of one exchange. `tls` has the trusted
    authorities and the client certificate; None trusts the system's authorities. Raises ConfigurationError for headers
    that cannot be sent.
    """

    def __init__(self, headers: Mapping[str, str], timeout_s: float, tls: ssl.SSLContext | None = None) -> None:
        for name in headers:
            if name.lower() in _SET_BY_CHECK:
                raise ConfigurationError(f"header {name!r} is set by the check itself, with several values; remove it")
        filled = {name: resolve_header(name, value) for name, value in headers.items()}
        super().__init__(filled, timeout_s, tls, grpc_tls=False)
        self.header_values = frozenset(filled.values())
        """To be masked in reports: an agent may quote the request."""

    async def card(self, url: str) -> CardSeen:
        """Fetch the agent card from its well-known paths under `url`.

        Raises AgentUnreachableError if there is no connection, AgentError if there is no card.
        """
        self.grpc_tls = url.startswith("https://")
        problem = ""
        for path in sorted(WELL_KNOWN_PATHS):  # agent-card.json, then its older name
            request = ProbeRequest("GET", url.rstrip("/") + path, (("Accept", "application/json"),))
            answer = await self.answer(request)
            if answer.failure is not None and not isinstance(answer.failure, EventTooLargeError):
                problem = self._failure(answer.failure, request.url)
                raise AgentUnreachableError(f"{request.url}: {problem}") from answer.failure
            body = b"".join(message.data for message in answer.messages)
            if httpx.codes.is_success(answer.status):
                try:
                    card = decode_json(body[:MAX_BODY_BYTES])
                except ValueError:
                    card = None
                if not isinstance(card, dict):
                    raise AgentError(f"{request.url} is not an agent card: expected a JSON object")
                return CardSeen(request, card, body=body)
            problem = problem or f"{request.url} answered HTTP {answer.status}"
            if answer.status != httpx.codes.NOT_FOUND:
                break
        raise AgentError(f"{problem}: no agent card found")

    async def exchange(self, request: OperationRequest, listener: Listener | None = None) -> ProbeExchange:
        """Send `request` and read the answer; calls `listener` with each event of a stream as it arrives.

        Never raises for a failure of the agent: the exchange's `problem` describes it.
        """
        answer = await self.answer(request, _Settling(request, listener))
        end, status, problem, error = answer.end, answer.status, "", None
        if answer.failure is not None:
            problem = self._failure(answer.failure)
        if request.interface.binding is Binding.GRPC and not isinstance(answer.failure, TimeoutError):
            status = 200
        if end is not None and end.code != "OK":
            problem, error = f"gRPC {end.code}: {end.message}".rstrip(": "), _grpc_error(end)
            status = 0 if end.code in _GIVEN_UP else 200
        whole = answer.streams or answer.failure is None
        documents = [message.data for message in answer.messages] if whole else []
        fields = (*answer.headers, *(end.trailing if end else ()))
        return replace(read_response(request, status, fields, documents, problem), grpc_error=error)

    def _failure(self, error: Exception, first: str = "") -> str:
        """Why an answer is not whole; `first`: see `connection_problem`."""
        if isinstance(error, TimeoutError):
            return f"no answer within {self.timeout_s:g} s"
        if isinstance(error, EventTooLargeError):
            return str(error)
        connects = isinstance(error, httpx.ConnectError | httpx.ConnectTimeout)
        return f"{'cannot connect' if connects else 'the request failed'}: {connection_problem(error, first)}"

    async def finished(self, opening: ProbeExchange, task_id: str) -> ProbeExchange:
        """Returns `opening`, or the first later read of its task that shows a settled state, or the last in time."""
        done = opening
        for _ in range(ceil(self.timeout_s / POLL_S)):
            if done.problem or settled(done):
                break
            await asyncio.sleep(POLL_S)
            done = await self.exchange(get(opening.request.interface, task_id, opening.activation))
        return done


class _Settling:
    """Passes the events of a stream on, and says for how long to read it."""

    def __init__(self, request: OperationRequest, listener: Listener | None) -> None:
        self._request = request
        self._listener = listener
        self._left_s: float | None = None

    def __call__(self, data: bytes) -> float | None:
        """`Take`: to the end, or for CLOSING_GRACE_S after the task is settled; not at all if that shows it whole."""
        for event in read_response(self._request, 200, (), [data]).events:
            if event.normal is not None and is_settled(event.normal):
                self._left_s = CLOSING_GRACE_S
                if "task" in event.normal and self._request.operation in STREAMING:
                    self._left_s = 0
            if self._listener is not None:
                self._listener(event)
        return self._left_s


def _grpc_error(end: GrpcEnd) -> GrpcError:
    """The error of a status; details that cannot be read count as absent."""
    status, info = Status(), ErrorInfo()
    try:
        status.ParseFromString(end.details or b"")
        if any(detail.Unpack(info) for detail in status.details):
            return GrpcError(end.code, end.message, info.reason, info.domain)
    except DecodeError:
        pass
    return GrpcError(end.code, end.message)
