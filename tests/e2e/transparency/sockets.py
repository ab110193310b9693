"""Requests and responses as bytes on a connection, where no client would write or read them so."""

from __future__ import annotations

import socket
from urllib.parse import urlsplit

from support.patience import PATIENCE_S


def connect(url: str) -> socket.socket:
    parts = urlsplit(url)
    return socket.create_connection((parts.hostname, parts.port), PATIENCE_S)


def until_closed(connection: socket.socket) -> bytes:
    """Everything up to the end of a connection. Raises ConnectionError where it is reset."""
    received = b""
    while piece := connection.recv(65_536):
        received += piece
    return received


def raw_answer(url: str, request: bytes) -> bytes:
    with connect(url) as connection:
        connection.sendall(request)
        return until_closed(connection)
