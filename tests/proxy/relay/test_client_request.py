"""Whose request it is, for requests that repeat the header of an earlier one of their connection."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from a2a_eval_proxy.net.server_exchange import CLIENT
from a2a_eval_proxy.protocol.headers import read_request
from a2a_eval_proxy.relay.client_request import ClientRequest


def test_the_caller_is_derived_once_for_a_header_and_the_keys_of_a_card() -> None:
    derived: list[str] = []

    def caller(head: object, query: bytes, peer: str) -> bytes:
        derived.append(peer)
        return peer.encode()

    negotiation = SimpleNamespace(api_keys=frozenset())
    context: Any = SimpleNamespace(negotiation=negotiation, caller=caller)

    def request(kept: dict[Any, Any], peer: str) -> ClientRequest:
        scope = {"method": "POST", "path": "/", "query_string": b"", "client": (peer, 1), "extensions": {CLIENT: None}}
        unused: Any = None
        return ClientRequest(context, scope, read_request([(b"host", b"proxy")]), kept, unused, unused)

    one, other = dict[Any, Any](), dict[Any, Any]()  # of two connections
    assert [request(one, "10.0.0.1").caller for _ in range(3)] == [b"10.0.0.1"] * 3
    assert request(other, "10.0.0.2").caller == b"10.0.0.2"
    assert derived == ["10.0.0.1", "10.0.0.2"]
    negotiation.api_keys = frozenset(["another"])
    assert request(one, "10.0.0.1").caller == b"10.0.0.1"
    assert len(derived) == 3
