"""A raw HTTP/1.1 server that answers with prepared bytes, and keeps the bytes it received.

Real SDK servers show that agents work through the proxy; this one shows that not a byte changes on the way.
"""

from __future__ import annotations

import socket
import socketserver
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Self

from support.patience import PATIENCE_S

CARD_PATH = b"/.well-known/agent-card.json"


@dataclass(frozen=True)
class Received:
    """One request as it came in. `body` is without chunk framing."""

    head: bytes
    body: bytes

    @property
    def request_line(self) -> str:
        return self.head.split(b"\r\n")[0].decode("latin-1")

    @property
    def headers(self) -> list[tuple[str, str]]:
        """Names in lower case, in the order received."""
        lines = self.head.decode("latin-1").split("\r\n")[1:]
        pairs = (line.split(":", 1) for line in lines if line)
        return [(name.strip().lower(), value.strip()) for name, value in pairs]


@dataclass(frozen=True)
class Answer:
    """Bytes to write, piece by piece. `cut` closes the connection afterwards, even in the middle of a response.

    With `paced`, each piece after the first waits for `ReplayAgent.release`.
    """

    pieces: Sequence[bytes]
    cut: bool = False
    paced: bool = False


class ReplayAgent:
    """Context manager: answers card requests with `card`, everything else with `answer`."""

    def __init__(self) -> None:
        self.card = Answer([_plain(b"{}", b"application/json")])
        self.answer = Answer([_plain(b"nothing prepared", b"text/plain")])
        self._received: list[Received] = []
        self._released = threading.Semaphore(0)
        self._server = _Server(self)
        host, port = self._server.server_address[:2]
        self.authority = f"{host!s}:{port}"
        self.url = f"http://{self.authority}"
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._server.drop_connections()
        self._server.server_close()
        self._thread.join()

    def prepare(self, answer: Answer) -> None:
        """Sets the answer to the next requests and forgets what was received."""
        self.answer = answer
        self._received.clear()
        self._released = threading.Semaphore(0)

    def release(self) -> None:
        """Lets a paced answer write its next piece."""
        self._released.release()

    @property
    def received(self) -> list[Received]:
        """Requests since `prepare`, without those for the card (the proxy fetches it on its own account)."""
        return [request for request in self._received if CARD_PATH not in request.head.split(b"\r\n")[0]]

    @property
    def card_request(self) -> Received:
        """The last request for the card."""
        return [request for request in self._received if CARD_PATH in request.head.split(b"\r\n")[0]][-1]

    def _answer_to(self, request: Received) -> Answer:
        self._received.append(request)
        return self.card if CARD_PATH in request.head.split(b"\r\n")[0] else self.answer

    def _wait_for_release(self) -> None:
        if not self._released.acquire(timeout=PATIENCE_S):
            raise TimeoutError("no test released the next piece")


class _Server(socketserver.ThreadingTCPServer):
    allow_reuse_address = True
    daemon_threads = True
    block_on_close = False
    request_queue_size = 128

    def __init__(self, agent: ReplayAgent) -> None:
        self.agent = agent
        self._open: set[socket.socket] = set()
        self._lock = threading.Lock()
        super().__init__(("127.0.0.1", 0), _Connection)

    def process_request(self, request: socket.socket, client_address: object) -> None:  # type: ignore[override]
        with self._lock:
            self._open.add(request)
        super().process_request(request, client_address)

    def shutdown_request(self, request: socket.socket) -> None:  # type: ignore[override]
        with self._lock:
            self._open.discard(request)
        super().shutdown_request(request)

    def drop_connections(self) -> None:
        with self._lock:
            for connection in self._open:
                try:
                    connection.shutdown(socket.SHUT_RDWR)
                except OSError:  # the peer was faster
                    pass


class _Connection(socketserver.StreamRequestHandler):
    server: _Server

    def handle(self) -> None:
        try:
            while (request := self._read()) is not None:
                answer = self.server.agent._answer_to(request)
                for number, piece in enumerate(answer.pieces):
                    if answer.paced and number:
                        self.server.agent._wait_for_release()
                    self.connection.sendall(piece)
                if answer.cut:
                    return
        except (ConnectionError, TimeoutError):  # the client left, or its test has ended: nothing to answer any more
            pass

    def _read(self) -> Received | None:
        head = b""
        while not head.endswith(b"\r\n\r\n"):
            line = self.rfile.readline()
            if not line:
                return None
            head += line
        return Received(head.removesuffix(b"\r\n\r\n"), self._read_body(head.lower()))

    def _read_body(self, head: bytes) -> bytes:
        fields = dict(line.split(b":", 1) for line in head.split(b"\r\n")[1:] if b":" in line)
        if b"chunked" in fields.get(b"transfer-encoding", b""):
            body = b""
            while size := int(self.rfile.readline().split(b";")[0], 16):
                body += self.rfile.read(size)
                self.rfile.readline()
            self.rfile.readline()
            return body
        return self.rfile.read(int(fields.get(b"content-length", b"0")))


def _plain(body: bytes, kind: bytes) -> bytes:
    return b"HTTP/1.1 200 OK\r\ncontent-type: %b\r\ncontent-length: %d\r\n\r\n%b" % (kind, len(body), body)
