"""The proxies of the environment (HTTP_PROXY, HTTPS_PROXY, ALL_PROXY, NO_PROXY), for clients of httpx.

httpx reads these variables when a client is made, and fails there for a value that no request of the client needs.
Here each request finds its proxy, and its error can say which one it went through.
"""

from __future__ import annotations

import os
import re
import ssl
from collections.abc import Mapping
from contextlib import suppress
from ipaddress import ip_address, ip_network
from typing import Any, NamedTuple
from urllib.request import getproxies_environment

import httpx

from .errors import VIA, ConfigurationError


class UnusableProxyError(httpx.ProxyError):
    """A variable has no proxy that can be used; the message names it, and says what to do."""


class EnvironmentProxy(NamedTuple):
    """A proxy and the variable that names it."""

    url: str
    variable: str

    def __str__(self) -> str:
        return f"via proxy {re.sub('//[^/@]*@', '//***@', self.url)} from {self.variable}"


def proxy_for(url: httpx.URL, named: Mapping[str, str]) -> EnvironmentProxy | None:
    """The proxy of a request; `named` is what `getproxies_environment` returns. None: it goes to the host directly."""
    for scheme in (url.scheme, "all"):
        if (proxy := named.get(scheme)) and not _excepted(url.host.lower(), url.port, named.get("no", "")):
            variable = f"{scheme}_proxy"
            return EnvironmentProxy(
                proxy if "://" in proxy else f"http://{proxy}",
                variable if os.environ.get(variable) else variable.upper(),
            )
    return None


def _excepted(host: str, port: int | None, exceptions: str) -> bool:
    """Whether NO_PROXY names the host: itself or its domain, with a port or without, or a network with its address."""
    for name in re.split(r"[,\s]+", exceptions.lower()):
        plain = name.rpartition("://")[2].lstrip("*.").strip("[]")
        if name == "*" or name in (f"{host}:{port}", f"[{host}]:{port}"):
            return True
        if plain and (host == plain or host.endswith(f".{plain}")):
            return True
        with suppress(ValueError):
            if ip_address(host) in ip_network(plain, strict=False):
                return True
    return False


def environment_authorities() -> ssl.SSLContext:
    """A context with the authorities of SSL_CERT_FILE or SSL_CERT_DIR, else the usual ones. Raises ConfigurationError
    for a file that cannot be used."""
    try:
        return httpx.create_ssl_context()
    except OSError as error:
        name = "SSL_CERT_FILE" if os.environ.get("SSL_CERT_FILE") else "SSL_CERT_DIR"  # as httpx looks
        given = f"{name}={os.environ.get(name, '')}"
        raise ConfigurationError(f"{given} cannot be used: {error.strerror or error}; correct or unset it") from None


class EnvironmentTransport(httpx.AsyncBaseTransport):
    """Sends each request directly or through its proxy. `options` are those of httpx.AsyncHTTPTransport.

    Raises ConfigurationError for authorities of the environment (SSL_CERT_FILE) that cannot be read.
    """

    def __init__(self, verify: ssl.SSLContext | bool = True, **options: Any) -> None:
        self._options = {"verify": environment_authorities() if verify is True else verify, **options}
        self._named = getproxies_environment()
        self._transports: dict[str | None, httpx.AsyncHTTPTransport] = {}

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        proxy = proxy_for(request.url, self._named)
        if proxy is not None:
            request.extensions[VIA] = str(proxy)
        return await self._transport(proxy, request).handle_async_request(request)

    async def aclose(self) -> None:
        for transport in self._transports.values():
            await transport.aclose()

    def _transport(self, proxy: EnvironmentProxy | None, request: httpx.Request) -> httpx.AsyncHTTPTransport:
        key = proxy and proxy.url
        if key not in self._transports:
            try:
                self._transports[key] = httpx.AsyncHTTPTransport(proxy=key, **self._options)
            except (ValueError, httpx.InvalidURL, ImportError) as error:
                why = "SOCKS needs `pip install 'httpx[socks]'`" if isinstance(error, ImportError) else str(error)
                raise UnusableProxyError(
                    f"the request cannot go {proxy}: {why}; correct or unset the variable, or reach the host directly "
                    f"with NO_PROXY={request.url.host}",
                    request=request,
                ) from None
        return self._transports[key]
