"""The requests of a comparison that are wrong. Pure."""

from __future__ import annotations

from dataclasses import replace

from ...protocol.operations import Binding, Operation
from ..probe import requests
from ..probe.record import Activation, Interface, OperationRequest


def unknown_method(interface: Interface) -> OperationRequest:
    """A method, path or call that A2A does not have."""
    return requests.build(
        interface, Operation.OTHER, Activation.NOTHING, "GET", "/no-such-path", {}, name="NoSuchMethod"
    )


def malformed(interface: Interface) -> OperationRequest:
    """A send whose body is cut in two."""
    request = requests.send(interface, Operation.SEND, "", "m", Activation.NOTHING)
    cut = b"\x0a\xff" if interface.binding is Binding.GRPC else request.body[: len(request.body) // 2]
    return replace(request, body=cut)


def wrong_version(interface: Interface) -> OperationRequest:
    """A read with a protocol version that does not exist."""
    return requests.with_version(requests.get(interface, "no-such-task", Activation.NOTHING), "99.0")


def wrong_content_type(interface: Interface) -> OperationRequest | None:
    """An operation on a task that does not exist, as text/plain. None for gRPC, whose libraries set the type."""
    if interface.binding is Binding.GRPC:
        return None
    return requests.with_header(requests.cancel(interface, "no-such-task"), "Content-Type", "text/plain")
