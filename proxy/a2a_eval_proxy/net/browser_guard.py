"""Refuses requests of web pages: any page can make its reader's browser send requests to this machine.

A page can point its own domain name at our address (DNS rebinding): then `Host` is that name. Or it can send a simple
request to our address (CSRF): then the browser names the page's origin in `Origin`, or in `Sec-Fetch-Site`
(https://fetch.spec.whatwg.org/#origin-header, https://www.w3.org/TR/fetch-metadata/). Clients other than browsers
send neither, and use an address or a name of this machine.
"""

from __future__ import annotations

import socket
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from ipaddress import ip_address
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from starlette.responses import JSONResponse

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Receive, Scope, Send

Headers = Iterable[tuple[bytes, bytes]]

_OURS = ("localhost", ".localhost", ".svc", ".svc.cluster.local")
"""Names, and ends of names, that are not in public DNS: RFC 6761, section 6.3, and Kubernetes."""

READS = frozenset({"GET", "HEAD", "OPTIONS"})
"""Methods that change nothing."""


@dataclass(frozen=True, slots=True)
class Refusal:
    status: int
    message: str


class HostNames:
    """The names that clients may use, besides addresses: the machine's own, and the configured ones."""

    def __init__(self, names: Collection[str] = ()) -> None:
        self._names = {name.lower().rstrip(".") for name in (*names, socket.gethostname())}

    def __contains__(self, host: object) -> bool:
        if not isinstance(host, str):
            return False
        name = host.lower().rstrip(".")
        if name in self._names or any(name == end or (end[0] == "." and name.endswith(end)) for end in _OURS):
            return True
        try:
            ip_address(name)
        except ValueError:
            return False
        return True


def refusal(headers: Headers, names: HostNames, *, navigation: bool = False) -> Refusal | None:
    """Why a request is refused; None for an accepted one.

    `navigation`: links of other sites may lead here. The request changes nothing, and the response cannot be framed.
    """
    given = _texts(headers)
    hosts = given.get(b"host", [])
    if len(hosts) > 1:
        return Refusal(400, "the request has more than one Host header")
    if hosts and hosts[0] and (_host(f"//{hosts[0]}") not in names):
        return Refusal(
            421,
            f"Host {hosts[0][:100]!r} is no name of this proxy; use its address, or allow the name with --allow-hosts",
        )
    origins = given.get(b"origin", [])
    for origin in origins:
        if _host(origin) not in names:
            return Refusal(
                403, f"pages of {origin[:100]!r} may not use this proxy; allow their host with --allow-hosts"
            )
    followed = navigation and given.get(b"sec-fetch-dest") == ["document"]
    if not origins and not followed and "cross-site" in given.get(b"sec-fetch-site", []):
        return Refusal(403, "pages of other sites may not use this proxy; allow their host with --allow-hosts")
    return None


def cross_origin_write(method: str, headers: Headers, *, of_browser: bool) -> Refusal | None:
    """Why a request that may change something is refused: it comes from a page of another origin, such as another port.

    `of_browser`: browsers alone send such requests here. Then one that does not name its origin is refused, too.
    """
    if method in READS:
        return None
    given = _texts(headers)
    origins, sites = given.get(b"origin", []), given.get(b"sec-fetch-site", [])
    if sites:
        same = set(sites) <= {"same-origin", "none"}
    else:
        same = all(_is_at(origin, given.get(b"host", [])) for origin in origins) and not (of_browser and not origins)
    return None if same else Refusal(403, "only pages of this origin and clients with the admin token may change this")


def _is_at(origin: str, hosts: list[str]) -> bool:
    """Whether an origin, such as `http://localhost:8081`, has this host and port."""
    return [origin.partition("://")[2].lower()] == [host.lower() for host in hosts]


def _texts(headers: Headers) -> dict[bytes, list[str]]:
    given: dict[bytes, list[str]] = {}
    for name, value in headers:
        given.setdefault(name.lower(), []).append(value.decode("latin-1").strip())
    return given


def _host(url: str) -> str | None:
    try:
        return urlsplit(url).hostname
    except ValueError:
        return None


class BrowserGuard:
    """An ASGI application that refuses requests of other sites' pages."""

    def __init__(self, app: ASGIApp, names: HostNames) -> None:
        self._app = app
        self._names = names

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            refused = refusal(scope["headers"], self._names)
            if refused is not None:
                await JSONResponse({"error": refused.message}, refused.status)(scope, receive, send)
                return
        await self._app(scope, receive, send)
