"""A minimal HTTP/1.1 client on a socket: shows bytes as they are, and when they arrive."""

from __future__ import annotations

import socket
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from types import TracebackType
from typing import Self
from urllib.parse import urlsplit

from support.patience import PATIENCE_S

HOP_BY_HOP = {"connection", "keep-alive", "transfer-encoding"}

Headers = list[tuple[str, str]]


@dataclass
class RawResponse:
    """What came back. `complete` is false where the connection ended before the body did."""

    status_line: str
    headers: Headers
    body: bytes = b""
    complete: bool = False

    @property
    def status(self) -> int:
        return int(self.status_line.split()[1])

    @property
    def end_to_end_headers(self) -> Headers:
        """Names in lower case, sorted, without what belongs to one connection only."""
        return sorted((name.lower(), value) for name, value in self.headers if name.lower() not in HOP_BY_HOP)

    def header(self, name: str) -> str | None:
        return next((value for key, value in self.headers if key.lower() == name), None)


@dataclass
class RawConnection:
    """One connection to the authority of `url`. Use as context manager."""

    url: str
    response: RawResponse | None = field(default=None, init=False)

    def __enter__(self) -> Self:
        parts = urlsplit(self.url)
        self._authority = parts.netloc
        self._socket = socket.create_connection((parts.hostname or "", parts.port or 80), PATIENCE_S)
        self._file = self._socket.makefile("rb")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._file.close()
        self._socket.close()

    def send(self, request_line: str, headers: Iterable[tuple[str, str]], body: bytes = b"") -> None:
        """Sends one request; Host and Content-Length are added."""
        fields = [("Host", self._authority), *headers]
        if body or request_line.startswith("POST"):
            fields.append(("Content-Length", str(len(body))))
        head = "\r\n".join([request_line, *(f"{name}: {value}" for name, value in fields)])
        self._socket.sendall(head.encode("latin-1") + b"\r\n\r\n" + body)

    def read_head(self) -> RawResponse:
        status_line = self._file.readline().decode("latin-1").rstrip("\r\n")
        headers: Headers = []
        while line := self._file.readline().decode("latin-1").rstrip("\r\n"):
            name, value = line.split(":", 1)
            headers.append((name, value.strip()))
        self.response = RawResponse(status_line, headers)
        return self.response

    def pieces(self) -> Iterator[bytes]:
        """The body as it arrives: one item per HTTP chunk, or the whole of a body with a length."""
        assert self.response is not None, "read_head first"
        if "chunked" in (self.response.header("transfer-encoding") or "").lower():
            yield from self._chunks()
        else:
            yield self._with_length()

    def _chunks(self) -> Iterator[bytes]:
        assert self.response is not None
        while size_line := self._read_line():
            size = int(size_line.split(b";")[0], 16)
            data = self._read(size)
            if len(data) < size:
                self.response.body += data
                yield data
                return
            self._read_line()
            if size == 0:
                self.response.complete = True
                return
            self.response.body += data
            yield data

    def _with_length(self) -> bytes:
        assert self.response is not None
        length = self.response.header("content-length")
        if self.response.status in (204, 304):
            length = "0"
        body = self._read(int(length)) if length is not None else self._read(-1)
        self.response.body = body
        self.response.complete = length is None or len(body) == int(length)
        return body

    def _read(self, size: int) -> bytes:
        try:
            return self._file.read(size)
        except ConnectionError:  # an abort is an end, and not a clean one
            return b""

    def _read_line(self) -> bytes:
        try:
            return self._file.readline()
        except ConnectionError:
            return b""


def exchange(url: str, request_line: str, headers: Iterable[tuple[str, str]], body: bytes = b"") -> RawResponse:
    """One request and its whole response on a connection of its own."""
    with RawConnection(url) as connection:
        connection.send(request_line, headers, body)
        response = connection.read_head()
        for _ in connection.pieces():
            pass
        return response
