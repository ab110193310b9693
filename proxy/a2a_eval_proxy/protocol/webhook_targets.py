"""Which webhooks the proxy may send to: a URL when it is registered, an address when a notification is sent. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from urllib.parse import SplitResult, urlsplit

PUBLIC = "public"
"""Stands for every address that is reachable from the whole internet."""

_NUMERIC = re.compile(r"\[?[0-9a-f.]*:[0-9a-f:.]*\]?(/\d+)?|[0-9.]+(/[0-9.]+)?")
"""What is meant as an address or a network."""

_NAT64 = ip_network("64:ff9b::/96")
"""RFC 6052, section 2.1: the last 32 bits are an IPv4 address."""


class WebhookTargets:
    """The targets that `entries` allow.

    An entry is `public`, a host name (`*.example.com`: those below it), an address or a network (`10.0.0.0/8`). A name
    allows each address that it resolves to. Raises ValueError for anything else.
    """

    def __init__(self, entries: Iterable[str]) -> None:
        self._public = False
        self._names: set[str] = set()
        self._below: list[str] = []
        self._networks: list[IPv4Network | IPv6Network] = []
        for entry in entries:
            self._add(entry.lower())

    def _add(self, entry: str) -> None:
        name = entry.removeprefix("*.")
        if entry == PUBLIC:
            self._public = True
        elif _NUMERIC.fullmatch(entry):
            try:
                self._networks.append(ip_network(entry.strip("[]")))
            except ValueError as error:
                raise ValueError(f"{entry}: {error}") from None
        elif not name or not all(name.split(".")) or not name.replace("-", "").replace(".", "").isalnum():
            raise ValueError(f"{entry}: expected public, a host name such as *.example.com, an address or a network")
        elif name is entry:
            self._names.add(entry)
        else:
            self._below.append(f".{name}")

    def check(self, url: str) -> None:
        """Raises ValueError, with what to change, for a URL to which the proxy does not send."""
        parts = parsed(url)
        host = parts.hostname or ""
        if parts.username is not None:
            raise ValueError("a webhook's URL must not contain a user name or password; set `authentication` instead")
        try:
            address = ip_address(host)
        except ValueError:
            if self._has_name(host) or self._networks or (self._public and not _is_local(host)):
                return  # the address is checked when it is known
        else:
            if self.allows(host, address):
                return
        raise ValueError(f"the proxy does not send to webhooks at {host}; --push-allow of the proxy can allow it")

    def allows(self, host: str, address: IPv4Address | IPv6Address) -> bool:
        """Whether the proxy may send to a host of this name, or this IP address, at this address."""
        if self._has_name(host.lower()):
            return True
        if isinstance(address, IPv6Address):
            address = _embedded(address) or address
        if any(address in network for network in self._networks):
            return True
        return self._public and address.is_global and not address.is_multicast

    def _has_name(self, host: str) -> bool:
        host = host.removesuffix(".")
        return host in self._names or host.endswith(tuple(self._below))


def parsed(url: str) -> SplitResult:
    """The parts of a webhook's URL. Raises ValueError."""
    try:
        parts = urlsplit(url)
        valid = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        valid = False
    if not valid or not url.isascii() or not url.isprintable() or " " in url:
        raise ValueError("expected a webhook's URL such as https://client.example/notifications")
    return parts


def _is_local(host: str) -> bool:
    """Whether this name means this machine (RFC 6761, section 6.3)."""
    return f".{host.removesuffix('.')}".endswith(".localhost")


def _embedded(address: IPv6Address) -> IPv4Address | None:
    if address in _NAT64:
        return IPv4Address(int(address) & 0xFFFFFFFF)
    return address.ipv4_mapped or address.sixtofour
