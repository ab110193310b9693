"""To which webhooks the proxy sends: what a setting allows, and nothing behind another name for it."""

from __future__ import annotations

from ipaddress import IPv4Address, IPv6Address, ip_address

import pytest
from a2a_eval_proxy.features.push.targets import WebhookTargets
from hypothesis import given
from hypothesis import strategies as st

PRIVATE = [
    "127.0.0.1",
    "10.1.2.3",
    "172.16.0.1",
    "192.168.1.1",
    "169.254.169.254",
    "100.64.0.1",
    "0.0.0.0",
    "224.0.0.1",
    "255.255.255.255",
    "192.0.0.8",
    "192.0.0.170",
    "192.88.99.1",
    "198.18.0.1",
    "203.0.113.1",
    "::1",
    "::",
    "fe80::1",
    "fd00::1",
    "ff02::1",
    "::ffff:127.0.0.1",
    "64:ff9b::7f00:1",
    "2002:7f00:1::",
    "64:ff9b:1::1",
    "64:ff9b:1:a00:0:100::",
    "fec0::1",
    "::127.0.0.1",
    "::ffff:0:127.0.0.1",
    "2001:0:808:808::80ff:fffe",
    "100::1",
    "2001:2::1",
    "2001:db8::1",
    "3fff::1",
    "4000::1",
    "5f00::1",
]


@pytest.mark.parametrize("address", PRIVATE)
def test_private_addresses_are_not_public(address: str) -> None:
    public = WebhookTargets(["public"])
    assert not public.allows("hooks.example", ip_address(address))
    with pytest.raises(ValueError, match="does not send to webhooks"):
        public.check(f"http://[{address}]:80/" if ":" in address else f"http://{address}/")


@given(st.ip_addresses(v=4))
def test_an_address_of_ipv4_is_judged_alike_in_every_notation(address: IPv4Address) -> None:
    bits = int(address)
    notations = [
        bits,  # IPv4-compatible: RFC 4291, section 2.5.5.1
        0xFFFF << 32 | bits,  # IPv4-mapped: RFC 4291, section 2.5.5.2
        0xFFFF << 48 | bits,  # IPv4-translated: RFC 2765, section 2.1
        0x64FF9B << 96 | bits,  # NAT64: RFC 6052, section 2.1
        0x2002 << 112 | bits << 80 | 1,  # 6to4: RFC 3056, section 2
        0x20010000 << 96 | 0x08080808 << 64 | bits ^ 0xFFFFFFFF,  # Teredo: RFC 4380, section 4
    ]
    public = WebhookTargets(["public"])
    assert {public.allows("any", IPv6Address(one)) for one in notations} == {public.allows("any", address)}
    network = WebhookTargets([f"{address}/32"])
    assert all(network.allows("any", IPv6Address(one)) for one in notations)


@pytest.mark.parametrize("address", ["8.8.8.8", "192.0.1.1", "2606:4700::1111", "2001:200::1", "::ffff:8.8.8.8"])
def test_public_addresses_are(address: str) -> None:
    assert WebhookTargets(["public"]).allows("hooks.example", ip_address(address))
    assert not WebhookTargets(["*.example.com"]).allows("hooks.example", ip_address(address))


def test_names_networks_and_addresses() -> None:
    targets = WebhookTargets(["Hooks.example.com", "*.corp.example", "10.0.0.0/8", "::1"])
    loopback, inside = ip_address("127.0.0.1"), ip_address("10.9.9.9")
    assert targets.allows("HOOKS.example.com", loopback)
    assert targets.allows("a.b.corp.example.", loopback)
    assert not targets.allows("corp.example", loopback)
    assert not targets.allows("xhooks.example.com", loopback)
    assert targets.allows("any", inside)
    assert targets.allows("any", ip_address("::ffff:10.9.9.9"))
    assert targets.allows("any", ip_address("::1"))


@pytest.mark.parametrize(
    "url",
    ["", "ftp://a.example", "http://", "http://a.example:0/", "http://a b/", "http://ä.example/", "http://a\n/", "a"],
)
def test_what_is_no_url_is_refused(url: str) -> None:
    with pytest.raises(ValueError, match="expected a webhook's URL"):
        WebhookTargets(["public"]).check(url)


@pytest.mark.parametrize("url", ["http://u@a.example/", "http://u:p@a.example/", "http://:p@a.example/"])
def test_user_names_are_refused(url: str) -> None:
    with pytest.raises(ValueError, match="user name or password") as refused:
        WebhookTargets(["public"]).check(url)
    assert "p@" not in str(refused.value)


@pytest.mark.parametrize("url", ["http://localhost/", "http://LOCALHOST./", "http://a.localhost:9/", "http://127.1/x"])
def test_names_of_this_machine_are_not_public(url: str) -> None:
    try:
        WebhookTargets(["public"]).check(url)
    except ValueError:
        return
    assert "127.1" in url  # only the resolver knows that spelling: its address is checked


@pytest.mark.parametrize("entry", ["", "*.", "a..b", "10.0.0.0/99", "10.0.0.1/8", "http://a", "a_b"])
def test_what_is_no_entry(entry: str) -> None:
    with pytest.raises(ValueError, match=r"expected public|does not appear|host bits"):
        WebhookTargets([entry])
