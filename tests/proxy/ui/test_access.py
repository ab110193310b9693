"""Who gets a page: login links, the token, sessions, other sites, other hosts, path prefixes."""

from __future__ import annotations

import html
import re

import httpx
import pytest

from .conftest import Shown

HTML = {"accept": "text/html,*/*"}
FORM = {"content-type": "application/x-www-form-urlencoded"}


@pytest.fixture
def visitor(locked: Shown):
    with httpx.Client(base_url=locked.url, headers=HTML, trust_env=False) as client:
        yield client


def test_without_a_token_the_page_opens_and_curl_needs_nothing(shown: Shown) -> None:
    assert shown.page_address() == f"{shown.url}/"
    assert shown.admin.get("/", headers=HTML).status_code == 200
    assert shown.admin.delete("/api/cases/no-such-case").status_code == 404


def test_a_login_link_works_once_and_its_cookie_opens_pages_and_the_api(locked: Shown, visitor: httpx.Client) -> None:
    assert "Admin token" in visitor.get("/").text
    assert visitor.get("/").status_code == visitor.get("/api/runs").status_code == 401
    link = locked.page_address()
    answer = visitor.get(link)
    assert (answer.status_code, answer.headers["location"]) == (303, "./")
    cookie = answer.headers["set-cookie"]
    assert {"HttpOnly", "SameSite=strict"} <= set(cookie.split("; "))
    assert "path" not in cookie.lower()
    assert visitor.get("/").status_code == visitor.get("/api/runs").status_code == 200
    visitor.cookies.clear()
    assert visitor.get(link).status_code == visitor.get("/").status_code == 401


def test_the_token_logs_in_too_and_a_session_can_be_ended(visitor: httpx.Client) -> None:
    same = {"sec-fetch-site": "same-origin"}
    long = visitor.post("/login", content=b"token=" + b"x" * 20_000, headers=same | FORM)
    wrong = visitor.post("/login", data={"token": "wrong"}, headers=same)
    foreign = visitor.post("/login", data={"token": "s3cret"})  # no browser sends that
    right = visitor.post("/login", data={"token": "s3cret"}, headers=same)
    assert [answer.status_code for answer in (long, wrong, foreign, right)] == [400, 401, 403, 303]
    assert "Log out" in visitor.get("/").text
    answer = visitor.post("/logout", headers=same)
    assert (answer.status_code, answer.headers["location"]) == (303, "login")
    assert visitor.get("/").status_code == 401


def test_a_preview_of_a_login_link_does_not_use_it(locked: Shown, visitor: httpx.Client) -> None:
    link = locked.page_address()
    assert [visitor.head(link).status_code, visitor.get(link).status_code] == [401, 303]


@pytest.mark.parametrize("path", ["/turns/x?a=1", "/javascript:alert(1)", "/runs/%22%3E%3Cb%3E", "/"])
def test_who_followed_a_link_of_another_site_can_open_it_again(visitor: httpx.Client, path: str) -> None:
    """The cookie does not come with a request from another site; the link on the login page is not from another."""
    found = re.findall(r'href="([^"]*)">Open this page again', visitor.get(path).text)
    assert [html.unescape(url) for url in found] == ["./" + path.rpartition("/")[2]]


CHANGES = [
    ({}, False),
    ({"origin": "http://evil.example"}, False),
    ({"origin": "http://localhost:1"}, False),
    ({"origin": "null"}, False),
    ({"sec-fetch-site": "cross-site"}, False),
    ({"sec-fetch-site": "same-site"}, False),
    ({"sec-fetch-site": "same-origin"}, True),
    ({"sec-fetch-site": "same-origin", "origin": "http://evil.example"}, False),
    ({"origin": "HERE"}, True),
]


@pytest.mark.parametrize(("headers", "allowed"), CHANGES)
def test_only_a_page_of_the_same_origin_changes_something(
    locked: Shown, shown: Shown, visitor: httpx.Client, headers: dict[str, str], allowed: bool
) -> None:
    visitor.get(locked.page_address())
    case = {"id": "x", "turns": [{"user": "hi"}]}
    for client, url in ((visitor, locked.url), (shown.admin, shown.url)):
        given = {name: value.replace("HERE", url) for name, value in headers.items()}
        expected = allowed or (client is shown.admin and not headers)  # curl without a token
        assert (client.put("/api/cases/x", json=case, headers=given).status_code == 200) is expected


@pytest.mark.parametrize("path", ["/", "/turns/x", "/api/events", "/login?code=x"])
def test_a_page_for_the_name_of_another_host_is_refused(locked: Shown, visitor: httpx.Client, path: str) -> None:
    """DNS rebinding: the browser sends the cookie of that name, and a page under that name could read the answer."""
    visitor.get(locked.page_address())
    assert visitor.get(path, headers={"host": "evil.example"}).status_code == 421


def test_a_link_of_another_site_may_lead_to_a_page_and_nothing_else(shown: Shown) -> None:
    navigation = {"sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate", "sec-fetch-dest": "document"}
    assert shown.admin.get("/", headers=navigation).status_code == 200
    assert shown.admin.get("/api/runs", headers=navigation).status_code == 403
    for destination in ("iframe", "embed", "image", "script", "empty"):
        assert shown.admin.get("/", headers=navigation | {"sec-fetch-dest": destination}).status_code == 403


def test_pages_are_closed_to_frames_caches_and_foreign_content(shown: Shown) -> None:
    headers = shown.admin.get("/").headers
    policy = dict(part.partition(" ")[::2] for part in headers["content-security-policy"].split("; "))
    assert policy["default-src"] == policy["frame-ancestors"] == policy["base-uri"] == "'none'"
    assert {policy[name] for name in ("script-src", "style-src", "connect-src", "img-src", "form-action")} == {"'self'"}
    others = ("cache-control", "x-content-type-options", "referrer-policy")
    assert [headers[name] for name in others] == ["no-store", "nosniff", "same-origin"]


def test_a_browser_asks_whether_it_has_the_assets_of_this_version(shown: Shown) -> None:
    files = re.findall(r'="(?:\./)?assets/([^"]+)"', shown.admin.get("/").text)
    assert {name.rpartition(".")[2] for name in files} == {"css", "js", "svg"}
    for name in files:
        headers = shown.admin.get(f"/assets/{name}").headers
        assert (headers["cache-control"], headers["x-content-type-options"]) == ("no-cache", "nosniff")
        again = shown.admin.get(f"/assets/{name}", headers={"if-none-match": headers["etag"]})
        assert again.status_code == 304
    for name in ("none.css", "..%2f__init__.py"):
        assert shown.admin.get(f"/assets/{name}").status_code == 404


def test_a_browser_that_asks_for_an_unknown_address_gets_a_page_that_leads_on(shown: Shown) -> None:
    page = shown.admin.get("/nowhere/at/all", headers=HTML)
    assert [page.status_code, 'href="../../"' in page.text, "/nowhere/at/all" in page.text] == [404, True, True]
    assert "no such path" in shown.admin.get("/api/nothing", headers=HTML).json()["error"]


def test_everything_works_below_a_path_prefix(shown: Shown) -> None:
    """A proxy in front removes its prefix: no URL of a page may begin with a slash, or name a host."""
    for path in ("/", "/turns/none", "/login"):
        text = shown.admin.get(path, headers=HTML).text
        urls = [part.partition('"')[0] for name in ("href", "src", "action") for part in text.split(f' {name}="')[1:]]
        assert not [url for url in urls if url.startswith("/") or ":" in url]
        up = "../" * (path.count("/") - 1)
        assert all(url.startswith(("#", up)) for url in urls)
