"""Cases run again from a page, and single messages go to the agent from the playground."""

from __future__ import annotations

import asyncio
import base64
import html
import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from agents.serving import ServerThread
from agents.stepwise_agent import stepwise_agent, stepwise_app
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Receive, Scope, Send
from support.turn_samples import result, turn

from .conftest import Shown, shown_proxy

SUITE = """\
suite: shop
evaluators: [tool_error]
cases:
  - {id: bad, turns: [{user: Do it.}]}
  - {id: good, turns: [{user: Do that.}]}
"""


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shown]:
    folder: Path = tmp_path_factory.mktemp("again")
    (folder / "suite.yaml").write_text(SUITE)
    with stepwise_agent() as agent, shown_proxy(folder, upstream=agent.url, suite=str(folder / "suite.yaml")) as proxy:
        proxy.store(
            turn("b", "Do it.", [], [result("tool_error", 0.0)], case="bad", run="monday", agent=agent.url),
            turn("g", "Do that.", [], [result("tool_error", 1.0)], case="good", run="monday", start=1, agent=agent.url),
        )
        yield proxy


def protected(url: str) -> ASGIApp:
    """The agent, which answers only messages with the secret in a header; its card is for everybody."""
    agent = stepwise_app(url)

    async def guarded(scope: Scope, receive: Receive, send: Send) -> None:
        if (
            scope["type"] == "http"
            and scope["method"] == "POST"
            and (b"x-key", SECRET.encode()) not in scope["headers"]
        ):
            await PlainTextResponse("who?", 401)(scope, receive, send)
        else:
            await agent(scope, receive, send)

    return guarded


SECRET = "s3cret-of-the-agent"


def test_a_protected_agent_gets_its_secret_which_nothing_stores_or_shows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From `run again` and from the playground, as from the proxy; another agent does not get it."""
    monkeypatch.setenv("AGENT_KEY", SECRET)
    (tmp_path / "suite.yaml").write_text(SUITE)
    with (
        ServerThread(protected) as agent,
        ServerThread(protected) as other,
        shown_proxy(
            tmp_path, upstream=agent.url, suite=str(tmp_path / "suite.yaml"),
            upstream_header=(("X-Key", "${AGENT_KEY}"),),
        ) as proxy,
    ):  # fmt: skip
        for run, url in (("monday", agent.url), ("elsewhere", other.url)):
            failed = turn(run, "Do it.", [], [result("tool_error", 0.0)], case="bad", run=run, agent=url)
            proxy.store(failed)
            started = proxy.admin.post("/again", data={"run": run})
            wait_for(proxy, proxy.proxy.site._reruns)
            page = proxy.admin.get(f"/{started.headers['location']}").text
            again = started.headers["location"].partition("run=")[2]
            (found,) = proxy.admin.get("/api/turns", params={"run": again}).json()["items"]
            assert (found["state"] == "TASK_STATE_COMPLETED") is (run == "monday")
            assert SECRET not in page + json.dumps(found)
        assert proxy.admin.post("/playground", data={"text": "Do it."}).status_code == 303
        wait_for(proxy, proxy.proxy.site._playground[""])
        proxy.flush()
        (found,) = proxy.admin.get("/api/turns", params={"run": "playground"}).json()["items"]
        assert found["state"] == "TASK_STATE_COMPLETED"
        pages = [
            proxy.admin.get(path).text for path in ("/playground", f"/turns/{found['turn_id']}", "/runs/playground")
        ]
    assert SECRET not in "".join(pages)
    assert not any(SECRET.encode() in file.read_bytes() for file in tmp_path.rglob("*") if file.is_file())


def wait_for(shop: Shown, began: object) -> None:
    """Until what a page began has ended."""
    task = getattr(began, "_task")  # noqa: B009  # private

    async def ended() -> None:
        await asyncio.wait({task})

    shop.loop.run(ended())


def text_of(page: str) -> str:
    return " ".join(html.unescape(re.sub(r"<[^>]+>", " ", page)).split())


def test_the_failed_cases_run_again_with_both_results_in_one_table(shop: Shown) -> None:
    assert "Run the failed cases again" in shop.admin.get("/runs/monday?wait=1").text
    started = shop.admin.post("/again", data={"run": "monday"})
    assert started.status_code == 303
    page = f"/{started.headers['location']}"
    busy = shop.admin.post("/again", data={"run": "monday"})
    assert (busy.status_code, "is not finished; wait for it" in busy.text) == (409, True)
    wait_for(shop, shop.proxy.site._reruns)
    text = text_of(shop.admin.get(page).text)
    assert "1 case of run monday , again in run monday-again-" in text
    assert "bad ✕ failed failed , 0 calls, 1.0 s" in text
    assert "Running" not in text
    name = page.partition("run=")[2]
    (found,) = shop.admin.get("/api/turns", params={"run": name}).json()["items"]
    assert (found["case_id"], found["user_text"], found["status"]) == ("bad", "Do it.", "done")


def test_one_case_runs_again_from_its_turn(shop: Shown) -> None:
    assert "Run the case again" in shop.admin.get("/turns/g").text
    started = shop.admin.post("/again", data={"run": "monday", "case": "good"})
    wait_for(shop, shop.proxy.site._reruns)
    assert "good" in text_of(shop.admin.get(f"/{started.headers['location']}").text)
    for form in ({"run": "none"}, {"run": "monday", "case": "--fail-fast"}, {"run": "monday", "case": "unknown"}):
        assert shop.admin.post("/again", data=form).status_code in (404, 409)
    foreign = {"origin": "http://evil.example", "sec-fetch-site": "cross-site"}
    assert shop.admin.post("/again", data={"run": "monday"}, headers=foreign).status_code == 403


def test_why_a_run_did_not_take_place_is_said(shop: Shown) -> None:
    shop.store(turn("x", "Do it.", [], [result("tool_error", 0.0)], case="bad", run="gone", agent="http://127.0.0.1:9"))
    started = shop.admin.post("/again", data={"run": "gone"})
    wait_for(shop, shop.proxy.site._reruns)
    assert "127.0.0.1:9" in text_of(shop.admin.get(f"/{started.headers['location']}").text).partition("again in")[2]


def test_without_a_suite_or_with_rules_of_privacy_nothing_runs_again(shown: Shown, tmp_path: Path) -> None:
    assert shown.admin.post("/again", data={"run": "nightly"}).status_code == 409
    (tmp_path / "suite.yaml").write_text(SUITE)
    with shown_proxy(tmp_path, suite=str(tmp_path / "suite.yaml"), no_content=True) as proxy:
        proxy.store(turn("b", "Do it.", [], [result("tool_error", 0.0)], case="bad", run="monday"))
        assert "Run the case again" not in proxy.admin.get("/turns/b").text
        assert proxy.admin.post("/again", data={"run": "monday"}).status_code == 409


def test_a_message_of_the_playground_is_a_turn(shop: Shown) -> None:
    page = shop.admin.get("/playground?turn=b").text
    assert ">Do it.</textarea>" in page
    assert "The turn you began with" in page
    sent = shop.admin.post("/playground", data={"text": "Do it <b>now</b>.", "turn": "b"})
    assert (sent.status_code, sent.headers["location"]) == (303, "playground?turn=b")
    wait_for(shop, shop.proxy.site._playground[""])
    shop.flush()
    after = shop.admin.get("/playground?turn=b").text
    assert "Do it &lt;b&gt;now&lt;/b&gt;." in after
    (found,) = shop.admin.get("/api/turns", params={"run": "playground"}).json()["items"]
    assert (found["user_text"], found["state"]) == ("Do it <b>now</b>.", "TASK_STATE_COMPLETED")
    for text in ("", " ", "x" * 20_001):
        assert shop.admin.post("/playground", data={"text": text}).status_code == 400


def test_files_go_with_a_message_of_the_playground(shop: Shown) -> None:
    picture = bytes(range(256)) + b"\r\n--\r\n"
    files = [
        ("file", ("bill \u00e4.png", picture, "image/png")),
        ("file", ("empty.txt", b"", "text/plain")),
        ("file", ("", b"")),
    ]
    sent = shop.admin.post("/playground", data={"text": "Read\r\nthis.", "conversation": ""}, files=files)
    assert sent.status_code == 303
    wait_for(shop, shop.proxy.site._playground[""])
    shop.flush()
    (found,) = shop.admin.get("/api/turns", params={"run": "playground", "q": "Read"}).json()["items"]
    assert found["user_text"] == "Read\nthis."
    wire = shop.admin.get(f"/api/turns/{found['turn_id']}/wire").json()
    parts = json.loads(wire["exchanges"][0]["request"]["body"]["text"])["params"]["message"]["parts"]
    assert parts[1:] == [
        {"raw": base64.b64encode(picture).decode(), "filename": "bill \u00e4.png", "mediaType": "image/png"},
        {"filename": "empty.txt", "mediaType": "text/plain", "raw": ""},
    ]
    large = [("file", ("large", b"x" * 11_000_000))]
    assert shop.admin.post("/playground", data={"text": "Too much"}, files=large).status_code == 413
    broken = {"content-type": "multipart/form-data; boundary=b"}
    assert shop.admin.post("/playground", content=b"--b\r\nno end", headers=broken).status_code == 400


def test_an_agent_that_is_away_is_named_in_the_playground(tmp_path: Path) -> None:
    with shown_proxy(tmp_path, upstream="http://127.0.0.1:9") as proxy:
        assert proxy.admin.post("/playground", data={"text": "Hello"}).status_code == 303
        wait_for(proxy, proxy.proxy.site._playground[""])
        assert 'role="alert"' in proxy.admin.get("/playground").text
