"""Agent cards of both ways: which interfaces belong together, and what else differs. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from ...protocol.operations import Binding
from ..probe.answer import WireAnswer, WireMessage
from ..probe.interfaces import objects
from ..probe.record import Interface
from .differences import Delta

_ADDRESSES = ("supportedInterfaces", "additionalInterfaces", "url", "preferredTransport")
_RECOMPUTED = frozenset({"etag", "last-modified", "cache-control", "vary", "cdn-cache-control", "surrogate-control"})
_SIGNATURES = (
    "a2a-eval-proxy removes the signatures of a card that it changes, such as its interface URLs, as they would not "
    "verify (proxy/docs/transparency.md)"
)
_TRANSCODED = "a2a-eval-proxy offers an agent that has only gRPC over HTTP, too (proxy/docs/transparency.md)"

_CACHING = "a2a-eval-proxy sets the caching headers of a card that it rewrites (proxy/docs/transparency.md)"


def interface_pairs(direct: list[Interface], proxied: list[Interface]) -> list[tuple[Interface, Interface | None]]:
    """Pairs each interface of the direct card with that of the proxied card: the same binding, version and tenant."""
    left = list(proxied)
    pairs: list[tuple[Interface, Interface | None]] = []
    for interface in direct:
        match = next((other for other in left if _key(other) == _key(interface)), None)
        if match is not None:
            left.remove(match)
        pairs.append((interface, match))
    return pairs


def interface_deltas(direct: list[Interface], proxied: list[Interface]) -> list[tuple[str, Delta]]:
    """Returns the differences between the interfaces of two cards, each with the name of its interface.

    Their order counts: clients use the first one that they can (A2A 1.0, section 8.3.2).
    """
    found = []
    for interface, other in interface_pairs(direct, proxied):
        if other is None:
            hint = "start a2a-eval-proxy with --grpc" if interface.binding is Binding.GRPC else "clients cannot use it"
            delta = Delta("interface", interface.url, f"(missing in the card of the proxy: {hint})")
            found.append((str(interface), delta))
    matched = {id(other) for _, other in interface_pairs(direct, proxied)}
    more = (other for other in proxied if id(other) not in matched)
    transcoded = all(each.binding is Binding.GRPC for each in direct)
    design = _TRANSCODED if transcoded else ""
    found += [(str(other), Delta("interface", "(missing)", other.url, design)) for other in more]
    if not found and list(map(_key, direct)) != list(map(_key, proxied)):
        found.append(("", Delta("order of interfaces", *(", ".join(map(str, each)) for each in (direct, proxied)))))
    return found


def _key(interface: Interface) -> tuple[Binding, str, str]:
    return interface.binding, interface.version, interface.tenant


def without_addresses(answer: WireAnswer, binding: Binding | None) -> WireAnswer:
    """The answer with a card, without interfaces, which are compared one by one."""
    return replace(answer, messages=[_bare_message(message, binding) for message in answer.messages])


def _bare_message(message: WireMessage, binding: Binding | None) -> WireMessage:
    card = message.value
    if isinstance(card, dict) and binding is Binding.JSONRPC:
        card = card.get("result")
    if not isinstance(card, dict):
        return message
    bare = {name: value for name, value in card.items() if name not in _ADDRESSES}
    whole = {**message.value, "result": bare} if binding is Binding.JSONRPC else bare
    return replace(message, data=json.dumps(whole).encode())


def unsigned(card: Any) -> Any:
    """Returns the card without its signatures: what they would cover."""
    return {name: value for name, value in card.items() if name != "signatures"} if isinstance(card, dict) else card


def with_design(deltas: list[Delta], changed: bool) -> Iterator[Delta]:
    """Names the differences of a card that the proxy makes by design; `changed`: it differs in more than signatures."""
    for delta in deltas:
        design = ""
        if changed and delta.what.endswith("signatures") and delta.proxied == "(missing)":
            design = _SIGNATURES
        elif changed and delta.what.removeprefix("header ") in _RECOMPUTED:
            design = _CACHING
        yield Delta(delta.what, delta.direct, delta.proxied, design)


def signatures_kept(direct: Any, proxied: Any, changed: bool) -> list[Delta]:
    """The difference where a proxy changes a signed card and keeps the signatures."""
    signed = changed and isinstance(proxied, dict) and objects(proxied.get("signatures"))
    if not signed or not isinstance(direct, dict):
        return []
    return [Delta("signatures", "present", "present, although they cannot verify: the card changed")]
