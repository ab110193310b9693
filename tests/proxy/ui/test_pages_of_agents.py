"""Pages and admin API of a proxy with several agents: what is chosen and shown is of one of them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import httpx
import pytest
from agents.serving import ServerThread
from agents.stepwise_agent import stepwise_app
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Receive, Scope, Send
from support.turn_samples import result, turn

from .conftest import A2A, Shown, shown_proxy, text_of

NAMES = ("orders", "refunds", "search")
SUITES = {"orders": "orders.yaml", "refunds": "refunds.yaml"}
"""`search` has the suite of the proxy, and so has `parcels`, which is away."""


def suite(name: str) -> str:
    return (
        f"# of {name}\nsuite: {name}\nevaluators: [tool_error]\ncases:\n"
        f"  - {{id: one, tags: [{name}], turns: [{{user: Do it.}}]}}\n"
        f"  - {{id: only-{name}, tags: [all], turns: [{{user: Do this for {name}.}}]}}\n"
    )


def behind_a_key(url: str, name: str) -> ASGIApp:
    """The agent `name`, which answers only messages with its own key, and refuses every other."""
    agent = stepwise_app(url)

    async def guarded(scope: Scope, receive: Receive, send: Send) -> None:
        keys = [value for key, value in scope.get("headers", ()) if key == b"x-key"]
        if scope["type"] == "http" and scope["method"] == "POST" and keys != [f"key-of-{name}".encode()]:
            await PlainTextResponse("who?", 401)(scope, receive, send)
        else:
            await agent(scope, receive, send)

    return guarded


@pytest.fixture(scope="module")
def platform(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shown]:
    folder: Path = tmp_path_factory.mktemp("platform")
    agents: dict[str, Any] = {"parcels": {"upstream": "http://127.0.0.1:9"}}
    for name in (*SUITES, "common"):
        (folder / f"{name}.yaml").write_text(suite(name))
    with ExitStack() as stack:
        for name in NAMES:
            served = stack.enter_context(ServerThread(lambda url, name=name: behind_a_key(url, name)))
            agents[name] = {"upstream": served.url, "upstream_header": {"X-Key": f"key-of-{name}"}}
        for name, file in SUITES.items():
            agents[name]["suite"] = str(folder / file)
        shown = stack.enter_context(shown_proxy(folder, agents=agents, suite=str(folder / "common.yaml")))
        while shown.admin.get("/api/turns").status_code != 200:  # the store has no tables yet
            pass
        yield shown


def say(platform: Shown, name: str, text: str, **headers: str) -> dict[str, Any]:
    """The turn that a message to this agent makes, once it is scored."""
    message = {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": text}]}
    body = {"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": {"message": message}}
    url = f"{platform.proxy.url}/agents/{name}/a2a/jsonrpc"
    assert "result" in httpx.post(url, json=body, headers={**A2A, **headers}, trust_env=False).json()
    platform.flush()
    return turns(platform, agent=name, order="newest")[0]


def turns(platform: Shown, **query: str) -> list[dict[str, Any]]:
    items: list[dict[str, Any]] = platform.admin.get("/api/turns", params=query).json()["items"]
    return items


def ids(platform: Shown, agent: str) -> list[str]:
    items = platform.admin.get("/api/cases", params={"agent": agent}).json()["items"]
    return [item["case_id"] for item in items]


# ── cases and suites ────────────────────────────────────────────────────────────────────────────────────────


def test_the_suite_and_its_cases_are_those_of_the_agent(platform: Shown) -> None:
    for name, of in {"orders": "orders", "search": "common", "parcels": "common"}.items():
        assert ids(platform, name) == ["one", f"only-{of}"]
        page = platform.admin.get("/cases", params={"agent": name}).text
        parts = (f"only-{of}", f"Suite {of},", f"<option selected>{name}</option>")
        assert [part for part in parts if part not in page] == []
    assert "only-orders" not in page
    for path, said in (
        ("/api/cases", "agent: required, as agents have suites of their own; expected one of parcels, orders"),
        ("/api/cases?agent=order", "agent: there is no agent 'order' (did you mean orders?)"),
        ("/cases?agent=x", "expected one of parcels, orders"),
    ):
        wrong = platform.admin.get(path)
        assert (wrong.status_code, said in wrong.text) == (400, True), wrong.text


def test_a_case_is_registered_for_the_agent_that_the_address_or_the_case_names(platform: Shown) -> None:
    body = {"turns": [{"user": "Do that."}]}
    assert platform.admin.put("/api/cases/new", json=body).status_code == 400
    for name, named in (("orders", {}), ("search", {}), ("refunds", {"agent": "refunds"})):
        query = {} if named else {"agent": name}
        assert platform.admin.put("/api/cases/new", json={**body, **named}, params=query).status_code == 200
    assert [("new" in ids(platform, name)) for name in (*NAMES, "parcels")] == [True] * 4
    assert say(platform, "search", "Do that.")["case_id"] == "new"
    for path, given, code, said in (
        ("new?agent=parcels", body, 409, "the case 'new' is of the agent search; choose another id"),
        ("x?agent=orders", {**body, "agent": "search"}, 400, "agent: the body says 'search'"),
    ):
        wrong = platform.admin.put(f"/api/cases/{path}", json=given)
        assert (wrong.status_code, said in wrong.text) == (code, True), wrong.text
    assert platform.admin.delete("/api/cases/new", params={"agent": "orders"}).status_code == 204
    assert [("new" in ids(platform, name)) for name in NAMES] == [False, True, True]


def test_the_case_of_a_turn_goes_to_the_suite_of_its_agent(platform: Shown) -> None:
    made = say(platform, "refunds", "Make a case of me.")
    page = platform.admin.get(f"/turns/{made['turn_id']}/case").text
    assert "refunds.yaml</button>" in page
    added = platform.admin.post(f"/turns/{made['turn_id']}/case", data={"action": "append", "case_id": "mine"})
    assert added.headers["location"].endswith("cases?agent=refunds")
    file = Path(str(platform.proxy.control.scorings["refunds"].suite_file))
    assert "id: mine" in file.read_text()
    assert ["mine" in ids(platform, name) for name in NAMES] == [False, True, False]
    shared = say(platform, "search", "Make a case of me.")
    added = platform.admin.post("/api/suite/cases", json={"turn_id": shared["turn_id"], "case_id": "mine"})
    file = Path(added.json()["file"])
    assert file.name == "common.yaml"
    assert "agent: search" in file.read_text().partition("id: mine")[2]


def test_a_turn_is_bound_to_cases_of_its_agent(platform: Shown) -> None:
    turn_id = say(platform, "orders", "Whatever.")["turn_id"]
    unknown = platform.admin.post(f"/api/turns/{turn_id}/case", json={"case_id": "only-refunds"})
    assert (unknown.status_code, "of the agent orders; GET /api/cases?agent=orders" in unknown.text) == (404, True)
    assert platform.admin.post(f"/api/turns/{turn_id}/case", json={"case_id": "only-orders"}).status_code == 202
    platform.flush()
    assert platform.admin.get(f"/api/turns/{turn_id}").json()["case_id"] == "only-orders"
    platform.store(turn("old", "Do it.", [], [result("tool_error", 1.0)], case="one", agent_name="removed"))
    gone = platform.admin.post("/api/turns/old/case", json={"case_id": "one"})
    assert (gone.status_code, gone.json()["error"]) == (409, "this process does not score turns of the agent removed")


def test_a_conversation_on_a_page_is_that_with_one_agent(platform: Shown) -> None:
    """Two have a conversation with the same id in one run, as `run` has one with both."""
    of = {"conversation": "same/id", "case": "one", "run": "talks"}
    judged = [result("helpfulness", 1.0)]
    for number, name in enumerate(("orders", "refunds", "orders", "refunds")):
        made = turn(f"talk-{number}", f"Say {number}.", [], judged, start=number, agent_name=name, **of)
        platform.store(made | ({"attempt": {"number": 1, "enough": None}, "run": "held"} if number > 1 else {}))

    def said(path: str, **query: str) -> list[str]:
        page = platform.admin.get(path, params=query).text
        return [number for number in "0123" if f"Say {number}." in page]

    assert said("/conversations/same%2Fid", run="talks", agent="refunds") == ["1"]
    assert said("/conversations/same%2Fid", run="held") == ["2", "3"]
    assert [said(f"/turns/talk-{number}") for number in range(4)] == [["0"], ["1"], ["2"], ["3"]]
    assert said("/label", metric="helpfulness", who="ann", agent="orders", run="talks") == ["0"]
    page = platform.admin.get("/label", params={"metric": "helpfulness", "who": "ann", "agent": "refunds"}).text
    assert "0 of 2 turns of refunds" in page
    links = re.findall(r'href="[^"]*(conversations/same%2Fid[^"]*)"', platform.admin.get("/runs/talks?wait=1").text)
    assert {link.partition("agent=")[2] for link in links} == {"orders", "refunds"}


# ── how the agents do ───────────────────────────────────────────────────────────────────────────────────────


def test_the_agents_are_listed_those_that_fail_now_first(platform: Shown) -> None:
    say(platform, "orders", "fail this")
    say(platform, "search", "fail this")
    fine = say(platform, "search", "Do that again.")
    found = {item["name"]: item for item in platform.admin.get("/api/agents").json()["items"]}
    assert [found[name]["health"] for name in ("parcels", "orders", "search")] == [
        "unreachable",
        "failing",
        "failed lately",
    ]
    assert set(list(found)[:2]) == {"parcels", "orders"}
    assert found["search"]["last_turn"]["turn_id"] == fine["turn_id"]
    orders = {"suite": "orders", "extension": "negotiated", "traces": None}
    assert found["orders"] | orders == found["orders"]
    assert found["orders"]["url"] == f"{platform.proxy.url}/agents/orders"
    glance = text_of(platform.admin.get("/").text)
    assert "Of 4 agents , 2 fail now: parcels (unreachable), orders (its last turn)." in glance
    page = text_of(platform.admin.get("/agents").text)
    places = [page.index(part) for part in ("2 fail now", "parcels unreachable", "orders failing", "search failed")]
    assert places == sorted(places)


def test_the_page_of_an_agent_says_how_it_does_and_why(platform: Shown) -> None:
    say(platform, "orders", "fail this")
    of_orders = ["orders failing Its last turn failed", "its tool calls are captured.", "traces not received by the"]
    of_parcels = ["Start the agent, or correct --upstream.", "suite common", "also of search"]
    for name, parts in (("orders", of_orders), ("parcels", of_parcels)):
        page = text_of(platform.admin.get(f"/agents/{name}").text)
        assert [part for part in parts if part not in page] == []
    assert platform.admin.get("/agents/nobody").status_code == 404
    assert "search" in text_of(platform.admin.get("/?agent=search").text)
