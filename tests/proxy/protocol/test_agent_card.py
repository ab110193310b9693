"""Agent cards as clients of the proxy see them: every interface leads through it, or is not there."""

from __future__ import annotations

import copy
import json
from typing import Any
from urllib.parse import urlsplit

import pytest
from a2a_eval_proxy.protocol.agent_card import (
    ApiKey,
    declared_api_keys,
    declared_uris,
    grpc_address,
    rewrite,
    rewrite_location,
    stated_version,
)
from a2a_tool_capture import URI
from hypothesis import given
from hypothesis import strategies as st
from support.junk import json_values
from support.recordings import RECORDED_AT, Recording

UPSTREAM = "http://agent.example.com:9000"
PUBLIC = "https://proxy.example.com"
Card = dict[str, Any]


def card(*interfaces: tuple[str, str], **more: Any) -> Card:
    """A 1.0 card with (binding, URL) interfaces."""
    listed = [{"url": url, "protocolBinding": binding, "protocolVersion": "1.0"} for binding, url in interfaces]
    return {"name": "agent", "supportedInterfaces": listed, "version": "1", **more}


def legacy_card(url: str, *additional: tuple[str, str], **more: Any) -> Card:
    """A 0.3 card."""
    others = [{"transport": transport, "url": other} for transport, other in additional]
    return {"name": "agent", "url": url, "additionalInterfaces": others, "preferredTransport": "JSONRPC", **more}


def urls(content: Any) -> list[str]:
    """Every `url` of an interface, wherever it stands."""
    found = [entry["url"] for key in ("supportedInterfaces", "additionalInterfaces") for entry in content.get(key, [])]
    return found + ([content["url"]] if "url" in content else [])


def rewritten_url(url: str, *, upstream: str = UPSTREAM, public: str = PUBLIC) -> Any:
    done = rewrite(card(("JSONRPC", url), signatures=[{}]), upstream, public)
    assert ("signatures" in done.card) is not done.changed
    return urls(done.card)[0]


# ── recorded cards ──────────────────────────────────────────────────────────────────────────────────────────


def recorded(name: str) -> Card:
    body = json.loads(Recording.load(name).response_body)
    found: Card = body.get("result", body)
    return found


@pytest.mark.parametrize(
    "name", ["card", "jsonrpc-v1.0-extcard", "jsonrpc-v0.3-extcard", "rest-v1.0-extcard", "rest-v0.3-extcard"]
)
def test_recorded_cards(name: str) -> None:
    """Of v1.0 and v0.3, plain and extended; all name gRPC interfaces too, which the proxy does not carry."""
    content = recorded(name)
    before = copy.deepcopy(content)
    done = rewrite(content, f"http://{RECORDED_AT}", PUBLIC)

    assert content == before
    assert done.changed
    assert {finding.code for finding in done.findings} == {"interface_left_out"}
    assert all(url.startswith(f"{PUBLIC}/a2a/") for url in urls(done.card))
    assert RECORDED_AT.split(":")[0] not in json.dumps(done.card)
    kept = [url.replace(f"http://{RECORDED_AT}", PUBLIC) for url in urls(content) if url.startswith("http")]
    assert urls(done.card) == kept
    others = {"supportedInterfaces", "additionalInterfaces", "url"}
    assert {k: v for k, v in done.card.items() if k not in others} == {
        k: v for k, v in content.items() if k not in others
    }
    assert list(done.card) == list(content)


# ── URLs ────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("url", "seen"),
    [
        (UPSTREAM, PUBLIC),
        (f"{UPSTREAM}/", f"{PUBLIC}/"),
        (f"{UPSTREAM}/a2a/jsonrpc", f"{PUBLIC}/a2a/jsonrpc"),
        (f"{UPSTREAM}/tenants/t%2F1/a2a?key=a%26b&x#f", f"{PUBLIC}/tenants/t%2F1/a2a?key=a%26b&x#f"),
        (f"{UPSTREAM}?tenant=1", f"{PUBLIC}?tenant=1"),
        ("http://AGENT.example.com:9000/a", f"{PUBLIC}/a"),
        ("http://user@agent.example.com:9000/a", f"{PUBLIC}/a"),
        ("https://agent.example.com:9000/a", f"{PUBLIC}/a"),
    ],
)
def test_paths_tenants_and_queries_are_kept(url: str, seen: str) -> None:
    assert rewritten_url(url) == seen


@pytest.mark.parametrize(
    ("url", "upstream"),
    [
        ("http://[2001:db8::1]:9000/a", "http://[2001:db8::1]:9000"),
        ("http://agent/a", "http://agent:80"),
        ("http://agent:80/a", "http://agent"),
        ("https://agent/a", "https://agent:443"),
        ("http://localhost:9000/a", "http://127.0.0.1:9000"),
        ("http://127.0.0.1:9000/a", "http://localhost:9000"),
        ("http://0.0.0.0:9000/a", "http://127.0.0.1:9000"),
        ("http://[::1]:9000/a", "http://localhost:9000"),
        ("http://localhost:9000/base/a", "http://localhost:9000/base"),
        ("http://localhost:9000/base/a", "http://localhost:9000/base/"),
    ],
)
def test_names_of_the_same_upstream(url: str, upstream: str) -> None:
    assert rewritten_url(url, upstream=upstream) == f"{PUBLIC}/a"


@pytest.mark.parametrize(
    ("url", "upstream"),
    [
        ("http://elsewhere:9000/a", UPSTREAM),
        ("http://agent.example.com:9001/a", UPSTREAM),
        ("http://agent.example.com/a", UPSTREAM),
        ("http://agent.example.com.evil.org:9000/a", UPSTREAM),
        ("http://localhost:9000/other/a", "http://localhost:9000/base"),
        ("http://localhost:9000/basement", "http://localhost:9000/base"),
        ("http://localhost:9000", "http://localhost:9000/base"),
        ("agent.example.com:9000", UPSTREAM),
        ("/a2a", UPSTREAM),
        ("", UPSTREAM),
        ("http://[::1", UPSTREAM),
        ("http://agent.example.com:99999/a", UPSTREAM),
        ("ftp://agent.example.com:9000/a", UPSTREAM),
    ],
)
def test_what_is_not_under_the_upstream_is_left_out(url: str, upstream: str) -> None:
    done = rewrite(card(("JSONRPC", url)), upstream, PUBLIC)
    assert urls(done.card) == []
    (finding,) = done.findings
    assert finding.code == "interface_left_out"
    assert repr(url) in finding.message


# ── bindings ────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("binding", "carried"),
    [
        ("JSONRPC", True),
        ("HTTP+JSON", True),
        ("jsonrpc", True),
        ("GRPC", False),
        ("", False),
        ("https://example.com/own-binding", False),
    ],
)
def test_bindings_that_are_carried(binding: str, carried: bool) -> None:
    """The others are left out; other fields of an interface are kept."""
    content = card((binding, f"{UPSTREAM}/a"), ("JSONRPC", f"{UPSTREAM}/b"))
    content["supportedInterfaces"][1]["tenant"] = "t1"
    done = rewrite(content, UPSTREAM, PUBLIC)
    assert urls(done.card) == [*([f"{PUBLIC}/a"] if carried else []), f"{PUBLIC}/b"]
    assert done.card["supportedInterfaces"][-1] == {**content["supportedInterfaces"][1], "url": f"{PUBLIC}/b"}
    assert [finding.code for finding in done.findings] == ([] if carried else ["interface_left_out"])


# ── 0.3 ─────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_main_url_that_cannot_be_carried_gives_way_to_the_first_that_can() -> None:
    content = legacy_card(
        "agent:9001", ("GRPC", "agent:9001"), ("HTTP+JSON", f"{UPSTREAM}/rest"), ("JSONRPC", f"{UPSTREAM}/rpc")
    )
    content["preferredTransport"] = "GRPC"
    done = rewrite(content, UPSTREAM, PUBLIC)
    assert (done.card["url"], done.card["preferredTransport"]) == (f"{PUBLIC}/rest", "HTTP+JSON")
    assert len(done.card["additionalInterfaces"]) == 2


@pytest.mark.parametrize("others", [[], None, 5, {"url": "x"}, ["x", {"url": 5}, {"transport": "JSONRPC"}]])
def test_without_one_there_is_no_main_url(others: Any) -> None:
    assert rewrite({"url": UPSTREAM}, UPSTREAM, f"{PUBLIC}/team/").card == {"url": f"{PUBLIC}/team"}
    content = {"url": "http://elsewhere/", "additionalInterfaces": others, "name": "agent"}
    done = rewrite(content, UPSTREAM, PUBLIC)
    assert done.card == {"additionalInterfaces": others, "name": "agent"}


# ── what need not change ────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("public", [PUBLIC, f"{PUBLIC}/", "https://proxy.example.com:443"])
def test_a_card_that_names_the_proxy_is_left_alone(public: str) -> None:
    """The transparent set-up: the agent is configured with the proxy's public URL and signs its card itself."""
    content = card(
        ("JSONRPC", f"{PUBLIC}/a"), ("GRPC", "agent:9001"), url=f"{PUBLIC}/a", signatures=[{"signature": "s"}]
    )
    done = rewrite(content, UPSTREAM, public)
    assert done.card is content
    assert not done.changed
    (finding,) = done.findings
    assert finding.code == "interface_past_proxy"
    assert finding.message.startswith("interface 'agent:9001' of the agent card leads past the proxy")


def test_a_card_without_interfaces_is_left_alone() -> None:
    content = {"name": "agent", "signatures": [{}], "documentationUrl": f"{UPSTREAM}/docs"}
    assert rewrite(content, UPSTREAM, PUBLIC).card is content


# ── any card ────────────────────────────────────────────────────────────────────────────────────────────────

hosts = st.sampled_from(["agent", "localhost", "127.0.0.1", "[::1]", "[2001:db8::1]", "proxy.example.com"])
ports = st.sampled_from(["", ":80", ":443", ":9000"])
paths = st.sampled_from(["", "/", "/base", "/base/", "/base/a", "/basement", "/t%2F1/a:b"])
queries = st.sampled_from(["", "?", "?k=v&x=%20", "?q#f", "#f"])
schemes = st.sampled_from(["http://", "https://", "HTTP://"])
web_urls = st.tuples(schemes, hosts, ports, paths, queries).map("".join)
bases = st.tuples(st.sampled_from(["http://", "https://"]), hosts, ports, st.sampled_from(["", "/base"])).map("".join)
bindings = st.sampled_from(["JSONRPC", "HTTP+JSON", "GRPC"])
cards = st.builds(
    lambda interfaces, additional, url, signed: {
        **card(*interfaces),
        **legacy_card(url, *additional),
        **({"signatures": [{}]} if signed else {}),
    },
    st.lists(st.tuples(bindings, web_urls), max_size=3),
    st.lists(st.tuples(bindings, web_urls), max_size=2),
    web_urls,
    st.booleans(),
)


def under(url: str, base: str) -> bool:
    return url == base or url.startswith((f"{base}/", f"{base}?", f"{base}#"))


def normal(url: str) -> str:
    """The URL with its default port and one name for loopback."""
    parts = urlsplit(url)
    port = parts.port or {"http": 80, "https": 443}[parts.scheme]
    host = "localhost" if parts.hostname in ("127.0.0.1", "::1") else parts.hostname
    return f"{host}:{port}" + url.split("://", 1)[1].removeprefix(parts.netloc)


@given(cards, bases, bases)
def test_every_interface_leads_through_the_proxy(content: Card, upstream: str, public: str) -> None:
    before = copy.deepcopy(content)
    done = rewrite(content, upstream, public)
    assert content == before
    assert done.changed == (done.card != content)
    assert ("signatures" in done.card) == ("signatures" in content and not done.changed)
    carried = [
        entry["url"]
        for key, binding in (("supportedInterfaces", "protocolBinding"), ("additionalInterfaces", "transport"))
        for entry in done.card[key]
        if entry[binding] != "GRPC" or done.changed
    ]
    assert all(
        under(normal(url), normal(public)) for url in [*carried, *([done.card["url"]] if "url" in done.card else [])]
    )
    named = " ".join(finding.message for finding in done.findings)
    for key in ("supportedInterfaces", "additionalInterfaces"):
        if len(done.card[key]) < len(content[key]):
            assert any(repr(entry["url"]) in named for entry in content[key])
    assert {finding.code for finding in done.findings} <= {
        "interface_left_out" if done.changed else "interface_past_proxy"
    }
    assert rewrite(done.card, upstream, public).changed is False or not urls(done.card)


card_keys = st.sampled_from(
    ["supportedInterfaces", "additionalInterfaces", "url", "preferredTransport", "signatures", "capabilities", "name"]
)
junk_entries = st.dictionaries(
    st.sampled_from(["url", "protocolBinding", "transport"]), st.sampled_from(["JSONRPC", UPSTREAM, "x"]) | json_values
)
junk_cards = st.dictionaries(card_keys, st.lists(junk_entries | json_values, max_size=3) | web_urls | json_values)


@given(junk_cards, bases | st.text(max_size=5), bases | st.text(max_size=5))
def test_any_card_can_be_rewritten(content: Card, upstream: str, public: str) -> None:
    done = rewrite(content, upstream, public)
    assert isinstance(done.card, dict)
    assert isinstance(declared_uris(content), list)


# ── declarations, locations ─────────────────────────────────────────────────────────────────────────────────


def test_what_a_card_declares() -> None:
    assert declared_uris(recorded("card")) == [URI]
    later = URI.replace("v1", "v2")
    extensions = [{"uri": "https://example.com/other"}, {"uri": later}, {"uri": 1}, "x", {"uri": URI}]
    assert declared_uris({"capabilities": {"extensions": extensions}}) == [later, URI]
    for nothing in (None, [], {}, {"capabilities": None}, {"capabilities": {"extensions": {}}}):
        assert declared_uris(nothing) == []


@pytest.mark.parametrize(
    ("location", "seen"),
    [
        (f"{UPSTREAM}/a2a/?x=1", f"{PUBLIC}/a2a/?x=1"),
        ("/a2a/", "/a2a/"),
        ("a2a/", "a2a/"),
        ("https://login.example.com/", "https://login.example.com/"),
        ("", ""),
        ("http://[", "http://["),
    ],
)
def test_locations_that_name_the_upstream(location: str, seen: str) -> None:
    assert rewrite_location(location, UPSTREAM, PUBLIC) == seen


@pytest.mark.parametrize(
    ("schemes", "keys"),
    [
        ({"k": {"type": "apiKey", "in": "header", "name": "X-Key"}}, {ApiKey("header", "X-Key")}),
        ({"k": {"apiKeySecurityScheme": {"location": "Query", "name": "key"}}}, {ApiKey("query", "key")}),
        ({"k": {"type": "http", "scheme": "bearer"}, "j": {"httpAuthSecurityScheme": {"scheme": "Bearer"}}}, set()),
        ({"k": {"in": 1, "name": "x"}, "j": {"in": "header"}, "i": None, "h": {"apiKeySecurityScheme": 3}}, set()),
        ([], set()),
        (None, set()),
    ],
)
def test_api_keys_that_a_card_declares(schemes: Any, keys: set[ApiKey]) -> None:
    assert declared_api_keys({"securitySchemes": schemes}) == keys
    assert declared_api_keys("junk") == set()


# ── gRPC ────────────────────────────────────────────────────────────────────────────────────────────────────

GRPC = "proxy.example.com:50051"


@pytest.mark.parametrize(
    ("url", "seen"),
    [
        ("agent.example.com:9001", GRPC),
        ("AGENT.example.com:1", GRPC),
        ("http://agent.example.com:9001", f"https://{GRPC}"),
        ("HTTPS://agent.example.com:9001/a2a/grpc", f"https://{GRPC}"),
        ("grpc://agent.example.com:9001", f"grpcs://{GRPC}"),
        ("tcp://agent.example.com:9001", GRPC),
    ],
)
def test_grpc_interfaces_on_the_host_of_the_agent_name_the_proxys_port(url: str, seen: str) -> None:
    done = rewrite(card(("GRPC", url), ("JSONRPC", f"{UPSTREAM}/rpc")), UPSTREAM, PUBLIC, GRPC)
    assert urls(done.card) == [seen, f"{PUBLIC}/rpc"]
    assert not done.findings
    assert rewrite(done.card, UPSTREAM, PUBLIC, GRPC) == type(done)(done.card, changed=False)
    legacy = legacy_card(url, ("JSONRPC", f"{UPSTREAM}/rpc"), preferredTransport="GRPC")
    assert urls(rewrite(legacy, UPSTREAM, PUBLIC, GRPC).card) == [f"{PUBLIC}/rpc", seen]
    additional = legacy_card(f"{UPSTREAM}/rpc", ("GRPC", url))
    assert urls(rewrite(additional, UPSTREAM, PUBLIC, GRPC).card) == [seen, f"{PUBLIC}/rpc"]
    assert grpc_address(legacy, UPSTREAM) == f"agent.example.com:{1 if url.endswith(':1') else 9001}"


@pytest.mark.parametrize("scheme", ["http", "https", "grpc", "grpcs"])
def test_a_grpc_interface_without_tls_has_the_scheme_of_one_without(scheme: str) -> None:
    done = rewrite(card(("GRPC", f"{scheme}://agent.example.com:9001")), UPSTREAM, "http://proxy.example.com", GRPC)
    assert urls(done.card) == [f"{scheme.removesuffix('s')}://{GRPC}"]


@pytest.mark.parametrize(
    "url", ["other.example.com:9001", "agent.example.com", "", ":9001", "[", "agent.example.com:x"]
)
def test_other_grpc_interfaces_are_left_out(url: str) -> None:
    content = card(("GRPC", url))
    done = rewrite(content, UPSTREAM, PUBLIC, GRPC)
    assert urls(done.card) == []
    assert [finding.code for finding in done.findings] == ["interface_left_out"]
    assert grpc_address(content, UPSTREAM) is None


@pytest.mark.parametrize("url", [GRPC, f"https://{GRPC}", f"http://{GRPC}"])
def test_a_card_that_names_the_proxys_grpc_port_is_left_alone(url: str) -> None:
    content = card(("GRPC", url), ("JSONRPC", PUBLIC), signatures=[{"signature": "x"}])
    assert rewrite(content, UPSTREAM, PUBLIC, GRPC).card is content


def test_loopback_names_of_a_grpc_interface_are_equal_but_for_the_proxys_own_port() -> None:
    content = card(("GRPC", "localhost:50051"), ("GRPC", "0.0.0.0:50052"))
    assert grpc_address(content, "http://127.0.0.1:9000") == "127.0.0.1:50051"
    assert grpc_address(content, "http://127.0.0.1:9000", "127.0.0.1:50051") == "127.0.0.1:50052"
    assert grpc_address(content, "http://[::1]:9000", "127.0.0.1:50051") == "[::1]:50052"
    assert grpc_address(content, UPSTREAM) is None


@pytest.mark.parametrize(
    ("card", "stated"),
    [
        ({"name": "shop", "version": "1.4"}, {"name": "shop", "version": "1.4"}),
        ({"version": "1.4"}, {"name": "", "version": "1.4"}),
        ({"name": ["shop"], "version": "\ud800" + "9" * 500}, {"name": "", "version": "?" + "9" * 199}),
        ({"name": "shop", "version": 1.4}, None),
        ({"name": "shop", "version": ""}, None),
        ({}, None),
        (["shop", "1.4"], None),
        (None, None),
    ],
)
def test_the_version_that_a_card_states(card: Any, stated: dict[str, str] | None) -> None:
    assert stated_version(card) == stated
