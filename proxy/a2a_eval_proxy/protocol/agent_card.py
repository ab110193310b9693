"""Agent cards: interface URLs that point at the agent are rewritten to the proxy. Pure.

1.0 cards have `supportedInterfaces[].url`; 0.3 cards `url` with `preferredTransport` and `additionalInterfaces[].url`;
compatible agents serve both in one card. gRPC interfaces are `host:port`, or URLs with a scheme, as the specification
has them (A2A 1.0, section 4.4.6; 0.3, section 5.5.5).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from a2a_tool_capture import Finding, Severity, card_search
from a2a_tool_capture.spec import is_capture_uri

from .operations import HTTP_BINDINGS, Binding

WELL_KNOWN_PATHS = frozenset(card_search.WELL_KNOWN_PATHS)

_MOST_CHARACTERS = 200
"""Of the name and the version of an agent: each turn has them."""

_INTERFACES = {"supportedInterfaces": "protocolBinding", "additionalInterfaces": "transport"}
"""Lists of interfaces, and the member that names the binding of an entry."""

_LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1", "0.0.0.0"})  # noqa: S104  how agents name themselves in cards
_PORTS = {"http": 80, "https": 443}
_GRPC_SCHEMES = (("http", "https"), ("grpc", "grpcs"))
"""Without TLS and with it. Some clients (grpc-dotnet) connect to URLs alone, others (grpcio) to `host:port` alone."""


@dataclass(frozen=True, slots=True)
class RewrittenCard:
    """`card` is a new object where something is changed, else the original object."""

    card: dict[str, Any]
    changed: bool
    findings: list[Finding] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class ApiKey:
    """Where clients put an API key: `place` is header, query or cookie."""

    place: str
    name: str


@dataclass(frozen=True, slots=True)
class _Base:
    """A base URL of HTTP to compare with."""

    authority: tuple[str, int | None]
    path: str
    """Without a final slash."""

    @classmethod
    def of(cls, url: str) -> _Base | None:
        authority = _authority(url)
        if not authority[0] or "://" not in url or (parts := urlsplit(url)).scheme not in _PORTS:
            return None
        return cls(authority, parts.path.rstrip("/"))

    def rest_of(self, url: str) -> str | None:
        """The part of `url` after this base (path, query, fragment); None where it is not under the base."""
        other = _Base.of(url)
        if other is None or other.authority != self.authority:
            return None
        tail = url.split("://", 1)[1]
        cut = next((index for index, char in enumerate(tail) if char in "/?#"), len(tail))
        tail = tail[cut:]
        if not tail.startswith(self.path):
            return None
        rest = tail[len(self.path) :]
        return rest if not rest or rest[0] in "/?#" else None


def rewrite(card: dict[str, Any], upstream: str, public: str, grpc: str | None = None) -> RewrittenCard:
    """The card as clients of the proxy should see it. Never raises; fields of the wrong type are left as they are.

    `grpc` is HOST:PORT where the proxy takes gRPC; it replaces the address of a gRPC interface on the upstream's host,
    with a scheme where that has one: the one with TLS if `public` is https.
    URLs under `upstream` become URLs under `public`, paths, tenants and queries kept. An interface that the proxy
    cannot carry (another host, another binding) is removed, with a finding: clients that used it would bypass the
    proxy. A card whose other interfaces name `public` already is unchanged, signatures included, with a finding for
    each interface that leads past the proxy. `signatures` of a changed card are removed: they would not verify.
    """
    rewriter = _Rewriter(upstream, public, grpc)
    out = dict(card)
    if rewriter.already_public(card):
        rewriter.find_ways_around(card)
    else:
        for name, binding_key in _INTERFACES.items():
            if isinstance(card.get(name), list):
                out[name] = rewriter.interfaces(card[name], binding_key)
        rewriter.main_url(out)
    if out == card:
        return RewrittenCard(card, changed=False, findings=rewriter.findings)
    out.pop("signatures", None)
    return RewrittenCard(out, changed=True, findings=rewriter.findings)


def declared_uris(card: Any) -> list[str]:
    """URIs of this extension's versions that the card declares, in its order."""
    capabilities = card.get("capabilities") if isinstance(card, dict) else None
    extensions = capabilities.get("extensions") if isinstance(capabilities, dict) else None
    if not isinstance(extensions, list):
        return []
    uris = (extension.get("uri") for extension in extensions if isinstance(extension, dict))
    return [uri for uri in uris if is_capture_uri(uri)]


def stated_version(card: Any) -> dict[str, str] | None:
    """The card's `name` and `version`, as in turns, at most `_MOST_CHARACTERS` of each; None without a version. Never
    raises."""
    said = [card.get(key) if isinstance(card, dict) else None for key in ("name", "version")]
    name, version = (
        text[:_MOST_CHARACTERS].encode("utf-8", "replace").decode() if isinstance(text, str) else "" for text in said
    )
    return {"name": name, "version": version} if version else None


def bindings_of(card: Any) -> list[str]:
    """The protocol bindings that the card offers, in upper case, in its order. Never raises."""
    return list(dict.fromkeys(binding for _, binding in _interfaces(card))) if isinstance(card, dict) else []


def grpc_address(card: Any, upstream: str, own: str | None = None) -> str | None:
    """HOST:PORT of the first gRPC interface in the card that is on the host of `upstream`. Never raises.

    `own` is HOST:PORT where the proxy itself listens: an agent on the same machine may name that in its card.
    """
    for url, binding in _interfaces(card) if isinstance(card, dict) else []:
        authority = _authority(url)
        if binding == Binding.GRPC and _on_host(authority, upstream) and authority != _authority(own or ""):
            host = urlsplit(upstream).hostname or ""
            return f"[{host}]:{authority[1]}" if ":" in host else f"{host}:{authority[1]}"
    return None


def _authority(url: str) -> tuple[str, int | None]:
    """Host and port of an interface, "" where it has none; those for gRPC need no scheme. All loopback names are
    equal."""
    try:
        parts = urlsplit(url if "://" in url else f"//{url}")
        host, port = parts.hostname or "", parts.port
    except ValueError:
        return "", None
    return "localhost" if host in _LOOPBACK else host, port or _PORTS.get(parts.scheme)


def _on_host(authority: tuple[str, int | None], upstream: str) -> bool:
    """Whether a gRPC interface is on the host of `upstream`, whose port is another."""
    host, port = authority
    return bool(host) and port is not None and host == _authority(upstream)[0]


def declared_api_keys(card: Any) -> frozenset[ApiKey]:
    """The API keys among the card's security schemes, in the shape of 1.0 or of 0.3. Never raises."""
    schemes = card.get("securitySchemes") if isinstance(card, dict) else None
    found = set()
    for scheme in schemes.values() if isinstance(schemes, dict) else ():
        if not isinstance(scheme, dict):
            continue
        inner = scheme.get("apiKeySecurityScheme")
        scheme, place = (inner, "location") if isinstance(inner, dict) else (scheme, "in")
        if isinstance(scheme.get(place), str) and isinstance(scheme.get("name"), str):
            found.add(ApiKey(scheme[place].lower(), scheme["name"]))
    return frozenset(found)


class _Rewriter:
    def __init__(self, upstream: str, public: str, grpc: str | None) -> None:
        self.upstream_url = upstream
        self.grpc = grpc
        self.carried = HTTP_BINDINGS if grpc is None else frozenset(Binding)
        self.upstream = _Base.of(upstream)
        self.public_base = _Base.of(public)
        self.public = public.rstrip("/")
        self.findings: list[Finding] = []

    def already_public(self, card: dict[str, Any]) -> bool:
        """Whether every URL of a binding we carry lies under the public URL."""
        urls = [(url, transport) for url, transport in _interfaces(card) if transport in self.carried]
        return bool(urls) and all(self._is_public(url, transport) for url, transport in urls)

    def find_ways_around(self, card: dict[str, Any]) -> None:
        """Findings for the interfaces that stay in a card which is already public, and lead past the proxy."""
        for url, binding in dict.fromkeys(_interfaces(card)):
            if binding not in self.carried:
                message = (
                    f"interface {url!r} of the agent card leads past the proxy, which does not carry the binding "
                    f"{binding!r}; it stays because the others name the proxy. Set --grpc for GRPC, or remove it"
                )
                self.findings.append(Finding("interface_past_proxy", message, Severity.WARNING, "agent card"))

    def interfaces(self, entries: list[Any], binding_key: str) -> list[Any]:
        out = []
        for entry in entries:
            if not _names_url(entry):
                out.append(entry)
                continue
            url = self.url(entry["url"], str(entry.get(binding_key, "")))
            if url is not None:
                out.append({**entry, "url": url})
        return out

    def main_url(self, card: dict[str, Any]) -> None:
        """The 0.3 `url`. Where it cannot be carried, the first additional interface that can takes its place."""
        if not isinstance(card.get("url"), str):
            return
        url = self.url(card["url"], str(card.get("preferredTransport", "JSONRPC")))
        if url is None:
            entries = card.get("additionalInterfaces")
            others = [entry for entry in entries if _names_url(entry)] if isinstance(entries, list) else []
            if others:  # rewritten already: the proxy can carry those left
                card["url"] = others[0]["url"]
                card["preferredTransport"] = others[0]["transport"]
            else:
                del card["url"]
        else:
            card["url"] = url

    def url(self, url: str, binding: str) -> str | None:
        """The rewritten URL; None where the proxy cannot carry the interface."""
        if self._is_public(url, binding.upper()):
            return url
        if binding.upper() == Binding.GRPC and self.grpc is not None:
            if _on_host(_authority(url), self.upstream_url):
                return _grpc_like(url, self.grpc, tls=self.public.startswith("https:"))
            reason = "it is not on the host of the upstream URL"
        elif binding.upper() in HTTP_BINDINGS:
            rest = self.upstream.rest_of(url) if self.upstream else None
            if rest is not None:
                return self.public + rest
            reason = "it does not lie under the upstream URL"
        else:
            reason = f"the proxy does not carry the binding {binding!r}"
        message = (
            f"interface {url!r} was left out of the agent card: {reason}. Clients that used it would bypass the "
            "proxy; configure the agent with the proxy's public URL, or point --upstream at it"
        )
        self.findings.append(Finding("interface_left_out", message, Severity.WARNING, "agent card"))
        return None

    def _is_public(self, url: str, binding: str) -> bool:
        if binding == Binding.GRPC:
            return url.rpartition("://")[2] == self.grpc
        return binding in HTTP_BINDINGS and self.public_base is not None and self.public_base.rest_of(url) is not None


def _grpc_like(url: str, address: str, *, tls: bool) -> str:
    """HOST:PORT in the form of `url`, which is the form that the agent's clients can read."""
    for plain, secure in _GRPC_SCHEMES:
        if url.lower().startswith((f"{plain}://", f"{secure}://")):
            return f"{secure if tls else plain}://{address}"
    return address


def _names_url(entry: Any) -> bool:
    return isinstance(entry, dict) and isinstance(entry.get("url"), str)


def _interfaces(card: dict[str, Any]) -> list[tuple[str, str]]:
    found = []
    for name, binding_key in _INTERFACES.items():
        entries = card.get(name)
        found += [
            (entry["url"], str(entry.get(binding_key, "")).upper())
            for entry in (entries if isinstance(entries, list) else ())
            if _names_url(entry)
        ]
    if isinstance(card.get("url"), str):
        found.append((card["url"], str(card.get("preferredTransport", "JSONRPC")).upper()))
    return found


def rewrite_location(location: str, upstream: str, public: str) -> str:
    """A `Location` under the upstream's URL as one under the proxy's; any other (relative, foreign) as it is."""
    base = _Base.of(upstream)
    rest = base.rest_of(location) if base else None
    return location if rest is None else public.rstrip("/") + rest
