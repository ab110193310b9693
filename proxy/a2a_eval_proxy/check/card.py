"""Reads the interfaces of an agent card of A2A 1.0 or 0.3. Pure."""

from __future__ import annotations

import re
from typing import Any
from urllib.parse import urlsplit

from a2a_tool_capture.spec import is_capture_uri

from ..protocol.operations import Binding
from .record import Interface, NotChecked

_BINDINGS = {binding.value: binding for binding in Binding}
_GRPC_ADDRESS = re.compile(r"(?:\w+://)?[^/\s]+:\d+/?")


def offered_interfaces(card: dict[str, Any]) -> tuple[list[Interface], list[NotChecked]]:
    """Returns the interfaces that can be checked, in the card's order without duplicates, and the others with a reason.

    1.0 has `supportedInterfaces`; 0.3 has `url` with `preferredTransport`, and `additionalInterfaces`. Fields of
    the wrong type count as absent.
    """
    required = _required_extensions(card)
    checked: dict[Interface, None] = {}
    left: dict[NotChecked, None] = {}
    for binding, version, url, tenant in _entries(card):
        name = f"{binding or 'unnamed binding'} {version}"
        short = ".".join(version.split(".")[:2])
        if binding not in _BINDINGS:
            left[NotChecked(f"{name} {url}", "the binding is not JSONRPC, HTTP+JSON or GRPC")] = None
        elif short not in ("1.0", "0.3"):
            left[NotChecked(f"{name} {url}", "the protocol version is neither 1.0 nor 0.3")] = None
        elif binding == Binding.GRPC and not _GRPC_ADDRESS.fullmatch(url):
            left[NotChecked(f"{name} {url!r}", "its URL is not HOST:PORT")] = None
        elif binding != Binding.GRPC and not _is_absolute(url):
            left[NotChecked(f"{name} {url!r}", "its URL is not an absolute http or https URL")] = None
        else:
            checked[Interface(_BINDINGS[binding], short, url, tenant, required)] = None
    return list(checked), list(left)


def offers_streaming(card: dict[str, Any]) -> bool:
    return _capabilities(card).get("streaming") is True


def declared_extensions(card: dict[str, Any]) -> Any:
    return _capabilities(card).get("extensions")


def objects(value: Any) -> list[dict[str, Any]]:
    """Returns the objects in a list; [] for any other value."""
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def _capabilities(card: dict[str, Any]) -> dict[str, Any]:
    capabilities = card.get("capabilities")
    return capabilities if isinstance(capabilities, dict) else {}


def _required_extensions(card: dict[str, Any]) -> tuple[str, ...]:
    """Returns the URIs that clients must activate, except this extension's, which must not be required."""
    declared = objects(declared_extensions(card))
    uris = (_text(entry.get("uri")) for entry in declared if entry.get("required") is True)
    return tuple(uri for uri in uris if uri.isascii() and uri.isprintable() and uri and not is_capture_uri(uri))


def _entries(card: dict[str, Any]) -> list[tuple[str, str, str, str]]:
    """Returns binding, protocol version, URL and tenant of every interface; "" for a missing field."""
    found = []
    for entry in objects(card.get("supportedInterfaces")):
        version = _text(entry.get("protocolVersion")) or "1.0"
        found.append((_text(entry.get("protocolBinding")).upper(), version, _text(entry.get("url")), entry))
    legacy = _text(card.get("protocolVersion")) or "0.3"
    if isinstance(card.get("url"), str):
        found.append((_text(card.get("preferredTransport")).upper() or "JSONRPC", legacy, card["url"], {}))
    found += [
        (_text(entry.get("transport")).upper(), legacy, _text(entry.get("url")), {})
        for entry in objects(card.get("additionalInterfaces"))
    ]
    return [(binding, version, url, _text(entry.get("tenant"))) for binding, version, url, entry in found]


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _is_absolute(url: str) -> bool:
    try:
        parts = urlsplit(url)
        return parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False
