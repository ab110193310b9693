"""Agent cards of both ways: which interfaces belong together, and what else differs. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from ...protocol.operations import Binding
from ..probe.interfaces import objects, offered_interfaces
from ..probe.record import Interface, NotChecked
from .answers import AnswerPart, Delta, SideAnswer

_ADDRESSES = ("supportedInterfaces", "additionalInterfaces", "url", "preferredTransport")
_RECOMPUTED = frozenset({"etag", "last-modified", "cache-control", "vary", "cdn-cache-control", "surrogate-control"})
_SIGNATURES = (
    "a2a-eval-proxy removes the signatures of a card whose interface URLs it rewrites, as they would not verify "
    "(proxy/docs/transparency.md)"
)
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
    found += [(str(other), Delta("interface", "(missing)", other.url)) for other in more]
    if not found and list(map(_key, direct)) != list(map(_key, proxied)):
        found.append(("", Delta("order of interfaces", *(", ".join(map(str, each)) for each in (direct, proxied)))))
    return found


def _key(interface: Interface) -> tuple[Binding, str, str]:
    return interface.binding, interface.version, interface.tenant


def without_addresses(answer: SideAnswer, binding: Binding | None) -> SideAnswer:
    """The answer with a card, without interfaces, which are compared one by one."""
    return replace(answer, parts=tuple(_bare_part(part, binding) for part in answer.parts))


def _bare_part(part: AnswerPart, binding: Binding | None) -> AnswerPart:
    value = part.value
    if not isinstance(value, dict):
        return part
    if binding is not Binding.JSONRPC:
        return AnswerPart(_bare(value))
    card = value.get("result")
    return AnswerPart({**value, "result": _bare(card)}) if isinstance(card, dict) else part


def addresses(card: Any) -> list[Any]:
    """Returns everything in a card that names an interface."""
    return [card.get(name) for name in _ADDRESSES] if isinstance(card, dict) else []


def _bare(card: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in card.items() if name not in _ADDRESSES}


def with_design(deltas: list[Delta], rewritten: bool) -> Iterator[Delta]:
    """Names the differences of a card that the proxy makes by design; `rewritten`: interface URLs differ."""
    for delta in deltas:
        design = ""
        if rewritten and delta.what.endswith("signatures") and delta.proxied == "(missing)":
            design = _SIGNATURES
        elif rewritten and delta.what.removeprefix("header ") in _RECOMPUTED:
            design = _CACHING
        yield Delta(delta.what, delta.direct, delta.proxied, design)


def signatures_kept(direct: Any, proxied: Any, rewritten: bool) -> list[Delta]:
    """The difference where a proxy rewrites URLs of a signed card and keeps the signatures."""
    signed = rewritten and isinstance(proxied, dict) and objects(proxied.get("signatures"))
    if not signed or not isinstance(direct, dict):
        return []
    return [Delta("signatures", "present", "present, although they cannot verify: interface URLs of the card changed")]


def offered(card: dict[str, Any]) -> tuple[list[Interface], list[NotChecked]]:
    """Returns the interfaces of a card that can be compared, gRPC too, and the others with a reason."""
    interfaces, left = offered_interfaces(card)
    required = interfaces[0].required if interfaces else ()
    for entry, binding, version in _entries(card):
        short, url, tenant = ".".join(str(version).split(".")[:2]), entry.get("url"), entry.get("tenant")
        if str(entry.get(binding)).upper() == Binding.GRPC and short in ("1.0", "0.3") and isinstance(url, str):
            grpc = Interface(Binding.GRPC, short, url, tenant if isinstance(tenant, str) else "", required)
            interfaces += [] if grpc in interfaces else [grpc]
    return interfaces, [one for one in left if not one.interface.startswith("GRPC ")]


def _entries(card: dict[str, Any]) -> Iterator[tuple[dict[str, Any], str, Any]]:
    """Yields each object that names an interface, its member for the binding, and the protocol version."""
    legacy = card.get("protocolVersion") or "0.3"
    for entry in objects(card.get("supportedInterfaces")):
        yield entry, "protocolBinding", entry.get("protocolVersion") or "1.0"
    for entry in (card, *objects(card.get("additionalInterfaces"))):
        yield entry, "preferredTransport" if entry is card else "transport", legacy
