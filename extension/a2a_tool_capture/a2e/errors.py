"""Exceptions between agent and host, named by the cause."""

from __future__ import annotations


class A2EError(Exception):
    """Base class of this room's exceptions."""


class ProtocolError(A2EError):
    """A received message is invalid; the text names the field and the expected value.

    `code` is A2E's error code, `message_id` the message's id, `req_id` the id of the request it responds to; "" if
    unknown.
    """

    def __init__(self, message: str, code: str = "schema_violation") -> None:
        super().__init__(message)
        self.code = code
        self.message_id = ""
        self.req_id = ""


class HostGoneError(A2EError):
    """The host has ended, closed the connection, or does not respond."""


class HostRefusedError(A2EError):
    """The host responded with an error; `code` is the host's error code."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(f"{code}: {message}" if message else code)
        self.code = code
