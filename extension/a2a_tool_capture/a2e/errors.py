"""What can go wrong between agent and host, named by whose fault it is."""

from __future__ import annotations


class A2EError(Exception):
    """Base of what this package raises."""


class ProtocolError(A2EError):
    """What the other side sent cannot be read; the message says where and what was expected.

    `code` is what A2E calls the mistake, `message_id` the message's own id, `req_id` the request it answers; the
    ids are "" where there is none.
    """

    def __init__(self, message: str, code: str = "schema_violation") -> None:
        super().__init__(message)
        self.code = code
        self.message_id = ""
        self.req_id = ""


class HostGoneError(A2EError):
    """The host has ended, closed the connection, or does not answer."""


class HostRefusedError(A2EError):
    """The host answered with an error; `code` is the host's word for it."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(f"{code}: {message}" if message else code)
        self.code = code
