"""People whom a proxy in front has authenticated: it names them in headers, which count from its addresses only."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from ipaddress import IPv6Address, ip_address
from typing import Any

from a2a_tool_capture.recent import RecentKeys

from ..net.browser_guard import Headers, Refusal
from ..settings.settings import AdminUsers

logger = logging.getLogger(__name__)

EVERY_USER = "*"
_MAX_NAME = 200
_MAX_WARNED = 64


@dataclass(frozen=True, slots=True)
class User:
    """Who sends a request, and by what that is known."""

    by: str
    name: str = ""  # as a trusted proxy says
    may_change: bool = True
    forwarded_for: str = ""  # from where that proxy has the request


class TrustedProxies:
    """Reads the headers of `AdminUsers`.

    A header counts by its exact name, in any case: `X_User` is not `X-User`, which proxies that replace the one may
    let pass. One that comes twice is refused, since the proxy in front may have added its own to the client's.
    """

    def __init__(self, settings: AdminUsers) -> None:
        self._networks = settings.admin_proxies
        self._user_header = (settings.admin_user_header or "").lower().encode()
        self._groups_header = (settings.admin_groups_header or "").lower().encode()
        self._readers = frozenset(settings.admin_read_groups)
        self._writers = frozenset(settings.admin_write_groups)
        self._warned: RecentKeys[str] = RecentKeys(_MAX_WARNED)

    def user(self, scope: Mapping[str, Any], peer: str) -> User | Refusal | None:
        """Who sends the request; None where no trusted proxy names a user."""
        headers: Headers = scope["headers"]
        names = _values(headers, self._user_header)
        if not any(names):
            return None
        if not self._is_trusted(peer):
            if peer not in self._warned:
                self._warned.add(peer)
                logger.warning("%s is ignored: %s is not in admin_proxies", self._user_header.decode(), peer)
            return None
        groups = _values(headers, self._groups_header)
        for header, values in ((self._user_header, names), (self._groups_header, groups)):
            if len(values) > 1:
                return Refusal(400, f"the request has more than one header {header.decode()}")
        name = names[0][:_MAX_NAME]
        member_of = {EVERY_USER, *(group.strip() for value in groups for group in value.split(","))}
        may_change = not member_of.isdisjoint(self._writers)
        if not may_change and member_of.isdisjoint(self._readers):
            return Refusal(403, "you are in none of the groups that may use this port")
        chain = _values(headers, b"x-forwarded-for")
        forwarded_for = chain[-1].rpartition(",")[2].strip()[:_MAX_NAME] if chain else ""
        return User("trusted proxy", name, may_change, forwarded_for)

    def _is_trusted(self, peer: str) -> bool:
        try:
            address = ip_address(peer.partition("%")[0])
        except ValueError:
            return False
        if isinstance(address, IPv6Address) and address.ipv4_mapped is not None:
            address = address.ipv4_mapped
        return any(address in network for network in self._networks)


def _values(headers: Headers, wanted: bytes) -> list[str]:
    return [value.decode("utf-8", "replace").strip() for name, value in headers if wanted and name.lower() == wanted]
