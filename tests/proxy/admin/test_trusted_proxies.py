"""Whom the headers of a proxy in front name, and from which addresses."""

from __future__ import annotations

from typing import Any

from a2a_eval_proxy.admin.trusted_proxies import TrustedProxies, User
from a2a_eval_proxy.net.browser_guard import Refusal
from a2a_eval_proxy.settings.parsing import NETWORKS
from a2a_eval_proxy.settings.settings import AdminUsers
from hypothesis import given
from hypothesis import strategies as st

NETWORK = NETWORKS.parse("10.0.0.0/8,2001:db8::/32")
PROXIES = TrustedProxies(
    AdminUsers(
        admin_user_header="X-Forwarded-User",
        admin_groups_header="X-Forwarded-Groups",
        admin_proxies=NETWORK,
        admin_read_groups=("staff",),
        admin_write_groups=("evaluators",),
    )
)


@given(peer=st.ip_addresses())
def test_who_is_trusted(peer: Any) -> None:
    scope = {"headers": [(b"x-forwarded-user", b"ann"), (b"x-forwarded-groups", b"staff")]}
    expected = any(peer in one for one in NETWORK)
    assert isinstance(PROXIES.user(scope, str(peer)), User) is expected
    if peer.version == 4:
        assert isinstance(PROXIES.user(scope, f"::ffff:{peer}"), User) is expected
    assert PROXIES.user(scope, "") is None


@given(
    names=st.lists(st.binary(max_size=12), max_size=3),
    groups=st.lists(st.sampled_from([b"staff", b"x", b""]), max_size=3),
)
def test_only_one_name_and_one_list_of_groups_make_a_user(names: list[bytes], groups: list[bytes]) -> None:
    headers = [(b"X-Forwarded-User", name) for name in names] + [(b"x-forwarded-groups", group) for group in groups]
    found = PROXIES.user({"headers": headers}, "10.0.0.1")
    if isinstance(found, User):
        assert len(names) == len(groups) == 1
        assert groups == [b"staff"]
        assert not found.may_change
    elif len(names) > 1 and any(name.decode("utf-8", "replace").strip() for name in names):
        assert isinstance(found, Refusal)
