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

_Address = IPv4Address | IPv6Address

_NOT_PUBLIC = [
    *map(ip_network, ("0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12")),
    *map(ip_network, ("192.0.0.0/24", "192.0.2.0/24", "192.88.99.0/24", "192.168.0.0/16", "198.18.0.0/15")),
    *map(ip_network, ("198.51.100.0/24", "203.0.113.0/24", "224.0.0.0/3")),
    *map(ip_network, ("::/3", "2001::/23", "2001:db8::/32", "3fff::/20", "4000::/2", "8000::/1")),
]
"""IANA's special-purpose networks (iana-ipv4-special-registry, iana-ipv6-special-registry) that are private, local or
no hosts', multicast, and all of IPv6 outside of 2000::/3, the global unicast addresses (ipv6-address-space). Not
`ipaddress.is_global`, whose tables differ from one release of Python to another."""

_LAST_32_BITS = [ip_network(one) for one in ("::/96", "::ffff:0:0/96", "::ffff:0:0:0/96", "64:ff9b::/96")]
"""Where these are an IPv4 address: RFC 4291, section 2.5.5; RFC 2765, section 2.1; RFC 6052, section 2.1 (NAT64)."""


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
            is_local = f".{host.removesuffix('.')}".endswith(".localhost")  # RFC 6761, section 6.3
            if self._has_name(host) or self._networks or (self._public and not is_local):
                return  # the address is checked when it is known
        else:
            if self.allows(host, address):
                return
        raise ValueError(f"the proxy does not send to webhooks at {host}; --push-allow of the proxy can allow it")

    def allows(self, host: str, address: _Address) -> bool:
        """Whether the proxy may send to a host of this name, or this IP address, at this address."""
        if self._has_name(host.lower()):
            return True
        judged = _without_embedding(address)
        if any(one in network for network in self._networks for one in (address, judged)):
            return True
        return self._public and not any(judged in network for network in _NOT_PUBLIC)

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


def _without_embedding(address: _Address) -> _Address:
    """The IPv4 address that one of IPv6 embeds, also of 6to4 and Teredo; `address` where it embeds none."""
    if isinstance(address, IPv4Address):
        return address
    if any(address in network for network in _LAST_32_BITS):
        return IPv4Address(int(address) & 0xFFFFFFFF)
    return address.sixtofour or (address.teredo[1] if address.teredo else address)
