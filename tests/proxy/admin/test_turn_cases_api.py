"""Cases made of turns, appended to the suite file of a running proxy, and turns bound to cases."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from a2a_eval_proxy.features.accept.changes import record_run
from a2a_eval_proxy.privacy.redactor import detector_rule
from support.proxied import Proxied, proxied
from tool_call_evaluators import parse_suite
from tool_call_evaluators.suite import load_suite

pytestmark = pytest.mark.asyncio(loop_scope="module")

SUITE = """\
suite: orders  # ours
evaluators:
  - tool_trajectory: {mode: in_order}
  - tool_trajectory: {scope: conversation, id: whole}
cases:
  # the only one
  - id: refund
    turns:
      - user: Pay it back
        expect: {tool_calls: [{name: refund}]}
    expect: {tool_calls: [{name: refund}]}
"""


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def proxy(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Proxied]:
    folder = tmp_path_factory.mktemp("store")
    (folder / "suite.yaml").write_text(SUITE)
    async with proxied(folder, suite=str(folder / "suite.yaml")) as running:
        yield running


async def a_turn(proxy: Proxied, text: str, **options: Any) -> str:
    """The id of the turn in which the user said that; the agent calls `search`."""
    await proxy.talks(text, context=f"c of {text}", **options)
    await proxy.flushed()
    turns = [turn for turn in await proxy.proxy.turns() if turn["user_text"] == text]
    turn_id: str = turns[-1]["turn_id"]
    return turn_id


async def test_the_case_of_a_turn_is_the_one_that_record_writes(tmp_path: Path) -> None:
    async with proxied(tmp_path) as proxy:
        turn_id = await a_turn(proxy, "Where is my order?")
        response = await proxy.admin.get(f"/api/turns/{turn_id}/case")
        assert (response.status_code, response.headers["content-type"]) == (200, "application/yaml")
        recorded = await record_run(proxy.proxy.control.settings.store, None)
        assert response.text in recorded.text
        assert parse_suite("suite: a\ncases:\n" + response.text).cases[0].id == "where-is-my-order"
        nowhere = await proxy.admin.post("/api/suite/cases", json={"turn_id": turn_id})
        assert (nowhere.status_code, nowhere.json()["error"]) == (409, "suite: no suite file was given (--suite)")


async def test_the_case_of_a_turn_has_the_turns_before_it(proxy: Proxied) -> None:
    for number in range(3):
        await proxy.talks(f"message {number}", context="long")
    await proxy.flushed()
    turns = [turn for turn in await proxy.proxy.turns() if turn["conversation_id"] == "long"]
    text = (await proxy.admin.get(f"/api/turns/{turns[1]['turn_id']}/case")).text
    assert [line.split(": ")[-1] for line in text.splitlines() if "user: " in line] == ["message 0", "message 1"]


async def test_a_case_is_appended_and_in_force_at_once(proxy: Proxied) -> None:
    turn_id = await a_turn(proxy, "Where is ORD-1?")
    response = await proxy.admin.post("/api/suite/cases", json={"turn_id": turn_id})
    path = Path(proxy.proxy.control.settings.suite or "")
    assert (response.status_code, response.json()) == (201, {"case_id": "where-is-ord-1", "file": str(path)})
    text = path.read_text()
    assert text.startswith(SUITE)
    assert [case.id for case in load_suite(path).cases] == ["refund", "where-is-ord-1"]
    assert proxy.proxy.control.common.suite is not None
    assert [case.id for case in proxy.proxy.control.common.suite.cases] == ["refund", "where-is-ord-1"]
    again = await a_turn(proxy, "Where is ORD-1?")
    turn = await proxy.get(f"/api/turns/{again}")
    assert turn["case_id"] == "where-is-ord-1"
    assert [result["status"] for result in turn["evaluations"]] == ["passed"]
    numbered = await proxy.admin.post("/api/suite/cases", json={"turn_id": again})
    assert numbered.json()["case_id"] == "where-is-ord-1-2"  # of two turns
    named = await proxy.admin.post("/api/suite/cases", json={"turn_id": again, "case_id": " refund "})
    assert (named.status_code, named.json()["error"]) == (409, "case_id: the case 'refund' exists; choose another id")


async def test_a_case_with_the_messages_of_another_one_is_not_appended(proxy: Proxied) -> None:
    turn_id = await a_turn(proxy, "Twice, please")
    await proxy.admin.post("/api/suite/cases", json={"turn_id": turn_id})
    before = Path(proxy.proxy.control.settings.suite or "").read_text()
    for data in ({"turn_id": turn_id}, {"turn_id": turn_id, "case_id": "another"}):
        refused = await proxy.admin.post("/api/suite/cases", json=data)
        reason = "the case 'twice-please' has the same user messages; change what it expects, or bind the turn to it"
        assert (refused.status_code, refused.json()["error"]) == (409, reason)
    assert Path(proxy.proxy.control.settings.suite or "").read_text() == before
    page = (await proxy.admin.get(f"/turns/{turn_id}/case")).text
    assert "twice-please" in page
    assert "Append to" not in page
    assert (await proxy.get(f"/api/turns/{await a_turn(proxy, 'Twice, please')}"))["case_id"] == "twice-please"


async def test_a_turn_is_bound_to_a_case_and_scored_again(proxy: Proxied) -> None:
    turn_id = await a_turn(proxy, "please refund me", metadata={"a2a-eval-proxy/case": "no-such-case"})
    before = await proxy.get(f"/api/turns/{turn_id}")
    assert {result["status"] for result in before["evaluations"]} == {"skipped"}
    response = await proxy.admin.post(f"/api/turns/{turn_id}/case", json={"case_id": "refund"})
    assert (response.status_code, response.json()) == (202, {"case_id": "refund"})
    await proxy.flushed()
    after = await proxy.get(f"/api/turns/{turn_id}")
    assert after["case_id"] == "refund"
    assert {result["status"] for result in after["evaluations"]} == {"failed"}
    kept = [name for name in before if name not in ("case_id", "evaluations", "status")]
    assert {name: after[name] for name in kept} == {name: before[name] for name in kept}
    assert turn_id in [turn["turn_id"] for turn in (await proxy.get("/api/turns", case="refund"))["items"]]
    conversation = await proxy.get("/api/conversations/c of please refund me")
    assert {(one["case_id"], one["status"]) for one in conversation["evaluations"]} == {("refund", "failed")}


async def test_what_cannot_be_done_is_refused(proxy: Proxied) -> None:
    turn_id = await a_turn(proxy, "hello")
    failed = await a_turn(proxy, "this fails", state="FAILED")
    for path, body, status, message in (
        (f"/api/turns/{turn_id}/case", {"case_id": "absent"}, 404, "no case 'absent'; GET /api/cases lists them"),
        (f"/api/turns/{turn_id}/case", {}, 400, "case_id: required"),
        ("/api/turns/absent/case", {"case_id": "refund"}, 404, "no turn 'absent'"),
        ("/api/suite/cases", {"turn_id": "absent"}, 404, "no turn 'absent'"),
        ("/api/suite/cases", {"turn_id": 7}, 400, "turn_id: expected a valid string, got 7"),
        ("/api/suite/cases", {"turn_id": failed}, 409, "no case is made of failed conversations"),
    ):
        response = await proxy.admin.post(path, json=body)
        assert (response.status_code, message in response.json()["error"]) == (status, True), response.text
    foreign = {"origin": "http://evil.example"}
    for path, body in (
        (f"/api/turns/{turn_id}/case", {"case_id": "refund"}),
        ("/api/suite/cases", {"turn_id": turn_id}),
    ):
        assert (await proxy.admin.post(path, json=body, headers=foreign)).status_code == 403


async def test_redacted_turns_are_bound_to_redacted_expectations(tmp_path: Path) -> None:
    (tmp_path / "suite.yaml").write_text(
        "suite: a\nevaluators: [tool_call_args]\ncases:\n  - id: mail\n    turns:\n      - user: x\n"
        "        expect: {tool_calls: [{name: search, arguments: {q: to ann@example.com}}]}\n"
    )
    async with proxied(tmp_path, suite=str(tmp_path / "suite.yaml"), redact=(detector_rule("email"),)) as proxy:
        await proxy.talks("to ann@example.com")
        await proxy.flushed()
        (turn,) = await proxy.turns()
        await proxy.admin.post(f"/api/turns/{turn['turn_id']}/case", json={"case_id": "mail"})
        await proxy.flushed()
        (bound,) = await proxy.turns()
        assert [(one["evaluator"], one["status"]) for one in bound["evaluations"]] == [("tool_call_args", "passed")]
        assert (bound["user_text"], bound["case_id"]) == ("to [email]", "mail")


@pytest.mark.parametrize(
    ("settings", "message"),
    [({"evaluate": False}, "does not score turns"), ({"no_content": True}, "stored without its content")],
    ids=["no-evaluate", "no-content"],
)
async def test_turns_that_cannot_be_scored_are_not_bound(
    tmp_path: Path, settings: dict[str, Any], message: str
) -> None:
    async with proxied(tmp_path, **settings) as proxy:
        await proxy.talks()
        await proxy.flushed()
        (turn,) = await proxy.turns()
        await proxy.admin.put("/api/cases/x", json={"turns": [{"user": "hi"}]})
        response = await proxy.admin.post(f"/api/turns/{turn['turn_id']}/case", json={"case_id": "x"})
        assert (response.status_code, message in response.json()["error"]) == (409, True), response.text
