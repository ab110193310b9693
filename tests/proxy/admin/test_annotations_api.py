"""Annotations over the admin API: people assess turns and results of a running proxy."""

from __future__ import annotations

import io
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import pytest_asyncio
from a2a_eval_proxy.privacy.redactor import detector_rule
from a2a_eval_proxy.runs.stored_turns import write_turns
from support.proxied import Proxied, proxied

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def proxy(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Proxied]:
    async with proxied(tmp_path_factory.mktemp("store")) as running:
        yield running


async def a_turn(proxy: Proxied) -> str:
    """The path of the annotations of a new turn."""
    await proxy.talks("hello")
    await proxy.flushed()
    turns = (await proxy.get("/api/turns", limit=1000))["items"]
    return f"/api/turns/{turns[-1]['turn_id']}/annotations"


async def kept(proxy: Proxied, path: str) -> list[dict[str, Any]]:
    """The annotations that the turn has."""
    found: list[dict[str, Any]] = (await proxy.get(path.removesuffix("/annotations"))).get("annotations", [])
    return found


async def annotated(proxy: Proxied, path: str, **fields: Any) -> dict[str, Any]:
    response = await proxy.admin.post(path, json={"assessment": "wrong", **fields})
    assert response.status_code == 201, response.text
    answer: dict[str, Any] = response.json()
    return answer


async def test_a_turn_and_a_result_are_annotated_and_exported(proxy: Proxied) -> None:
    path = await a_turn(proxy)
    assert await kept(proxy, path) == []
    of_turn = await annotated(proxy, path, note="  it should have asked first ", who="ann")
    of_result = await annotated(proxy, path, assessment="right", evaluator="tool_error")
    assert (of_turn["assessment"], of_turn["note"], of_turn["who"]) == ("wrong", "it should have asked first", "ann")
    assert (of_turn["evaluator"], of_turn["score"]) == (None, None)
    assert (of_result["evaluator"], of_result["score"], of_result["passed"]) == ("tool_error", 1.0, True)
    assert await kept(proxy, path) == [of_turn, of_result]
    out = io.StringIO()
    await write_turns(proxy.proxy.control.settings.store, None, out)
    exported = [json.loads(line) for line in out.getvalue().splitlines()]
    assert [of_turn, of_result] in [turn.get("annotations") for turn in exported]
    one = f"{path}/{of_turn['annotation_id']}"
    assert [(await proxy.admin.delete(one)).status_code for _ in range(2)] == [204, 404]
    assert await kept(proxy, path) == [of_result]


@pytest.mark.parametrize(
    ("body", "status", "message"),
    [
        ({}, 400, "expected either an assessment, 'right' or 'wrong', or a label"),
        ({"assessment": "fine"}, 400, "got 'fine'"),
        ({"assessment": "right", "evaluator": "absent"}, 400, "no result of 'absent'; its results: tool_error"),
        ({"assessment": "right", "evaluator": 3}, 400, "evaluator: expected a valid string, got 3"),
        ({"assessment": "right", "note": "x" * 2001}, 400, "note: expected at most 2000 characters"),
        ({"assessment": "right", "who": "x" * 101}, 400, "who: expected at most 100 characters"),
        ({"assessment": "right", "verdict": "right"}, 400, "verdict: no such field; there are assessment"),
        ([], 400, "must be a JSON object"),
        ("x" * 70_000, 413, "an annotation may have 65536 bytes at most"),
        ({"label": "pass"}, 400, "label: it is of the result of an evaluator"),
        ({"evaluator": "tool_error", "label": 7}, 400, "label: expected a grade from 0 to 1, got 7"),
        ({"evaluator": "tool_error", "label": []}, 400, "label: expected a valid string, got []"),
        ({"evaluator": "tool_error", "label": "pass", "assessment": "right"}, 400, "expected either an assessment"),
        ({"evaluator": "tool_error", "label": "pass", "by": "robot"}, 400, "by: expected 'person' or 'model'"),
        ({"evaluator": "tool_error"}, 400, "expected either an assessment"),
    ],
)
async def test_what_is_no_annotation_is_refused(proxy: Proxied, body: Any, status: int, message: str) -> None:
    response = await proxy.admin.post(await a_turn(proxy), json=body)
    assert (response.status_code, message in response.json()["error"]) == (status, True), response.text


async def test_notes_are_redacted_and_a_token_is_needed_where_one_is_set(tmp_path: Path) -> None:
    rules = (detector_rule("email"),)
    async with proxied(tmp_path, redact=rules, admin_token="s3cret") as proxy:
        proxy.admin.headers["authorization"] = "Bearer s3cret"
        path = await a_turn(proxy)
        one = await annotated(proxy, path, note="ann@example.com is right", who="ann@example.com")
        assert (one["note"], one["who"]) == ("[email] is right", "[email]")
        async with httpx.AsyncClient(base_url=proxy.proxy.admin_url) as stranger:
            assert (await stranger.post(path, json={"assessment": "right"})).status_code == 401


async def test_without_content_a_note_is_not_kept(tmp_path: Path) -> None:
    async with proxied(tmp_path, no_content=True) as proxy:
        one = await annotated(proxy, await a_turn(proxy), note="the refund to Ann", who="bob")
        assert (one["note"], one["who"]) == ("[not kept: 17 characters]", "[not kept: 3 characters]")


async def test_a_label_says_what_the_evaluator_should_have_found(proxy: Proxied) -> None:
    path, kept_labels = await a_turn(proxy), []
    for given, expected in (
        ({"label": "Pass", "who": "ann"}, ("pass", None, "person")),
        ({"label": 0.5, "by": "model"}, (0.5, None, "model")),
    ):
        response = await proxy.admin.post(path, json={"evaluator": "tool_error", **given})
        label = response.json()
        assert (response.status_code, label["label"], label["assessment"], label["by"]) == (201, *expected)
        kept_labels.append(label)
    assert await kept(proxy, path) == kept_labels
