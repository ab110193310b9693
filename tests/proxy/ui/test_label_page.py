"""Turns are labelled blind, by several people, with nothing but forms; calibrations lead to where judge and people
disagree."""

from __future__ import annotations

import re
import uuid
from html import unescape
from typing import Any
from urllib.parse import quote

import httpx
import pytest
from a2a_eval_proxy.store.base import ConversationKey, ScoredConversation
from support.turn_samples import result, turn
from tool_call_evaluators.judged.quality import Helpfulness

from .conftest import Shown

VERDICT = "the judge says that it is splendid"


def judged(score: float, metric: str = "helpfulness") -> dict[str, Any]:
    judge = {"model": "m-1", "prompt": f"{metric}@1", "votes": 1, "key": Helpfulness(judge={"model": "m"}).judge_key}
    return result(metric, score, threshold=3.0, scale=[1.0, 5.0], reason=VERDICT, details={"judge": judge})


@pytest.fixture
def run(shown: Shown) -> str:
    """A run with four judged turns."""
    name = f"labels-{uuid.uuid4().hex}"
    for number in range(4):
        shown.store(turn(f"{name}-{number}", f"Question {number}", evaluations=[judged(4.5)], run=name, start=number))
    return name


def page(shown: Shown, run: str, who: str = "ann", **more: str) -> str:
    response = shown.admin.get("/label", params={"metric": "helpfulness", "who": who, "run": run, **more})
    assert response.status_code == 200
    return response.text


def offered(text: str) -> str:
    """The turn that a page offers."""
    return re.findall(r'name="turn_id" value="([^"]+)"', text)[0]


def give(shown: Shown, run: str, turn_id: str, label: str, who: str = "ann", **more: str) -> httpx.Response:
    form = {"metric": "helpfulness", "who": who, "run": run, "turn_id": turn_id, "label": label, **more}
    response = shown.admin.post("/label", data=form)
    assert response.status_code == 303, response.text
    return shown.admin.get(f"/{response.headers['location']}")


def test_a_page_says_nothing_of_what_the_judge_or_other_raters_said(shown: Shown, run: str) -> None:
    text = page(shown, run)
    give(shown, run, offered(text), "1", "bo", note="terrible, says bo")
    text = page(shown, run)
    for said in (VERDICT, "4.5", "terrible", "passed", "failed", "m-1"):
        assert said not in text.replace("4.5 and more", "")
    assert "You grade how helpful" in text  # the words of the judge's own prompt
    assert re.findall(r'<button name="label" value="(\d)"', text) == ["5", "4", "3", "2", "1"]


def test_every_turn_comes_once_in_the_same_order_for_all_and_progress_is_shown(shown: Shown, run: str) -> None:
    orders = []
    for who in ("ann", "bo"):
        text, order = page(shown, run, who), []
        for number in range(4):
            assert f"{who}: {number} of 4 turns" in unescape(text)
            order.append(offered(text))
            text = give(shown, run, order[-1], "4", who).text
        assert "You have labelled every turn." in text
        orders.append(order)
    assert len(set(orders[0])) == 4
    assert orders[0] == orders[1]
    assert "2 raters, 4 turns labelled, 50 make a claim" in page(shown, run)


def test_skip_leads_on_and_back_leads_to_the_label_that_is_replaced(shown: Shown, run: str) -> None:
    first = offered(page(shown, run))
    second = offered(page(shown, run, after=first))
    assert second != first
    text = give(shown, run, first, "2", note="too short").text
    assert offered(text) == second
    (back,) = re.findall(r'href="([^"]+)" data-key="b"', text)
    again = shown.admin.get(f"/{unescape(back)}").text
    assert offered(again) == first
    assert 'value="2" data-key="2" accesskey="2" aria-pressed="true"' in again
    assert 'value="too short"' in again
    give(shown, run, first, "5")
    labels = [one["label"] for one in shown.admin.get(f"/api/turns/{first}").json()["annotations"]]
    assert labels == [5.0]


@pytest.mark.parametrize(
    ("form", "status", "said"),
    [
        ({"label": "6"}, 400, "expected a grade from 1 to 5"),
        ({"label": ""}, 400, "needs the name of the rater"),
        ({"who": " "}, 400, "needs the name of the rater"),
        ({"metric": "absent"}, 400, "no result of"),
        ({"turn_id": "absent"}, 404, "no turn"),
    ],
)
def test_what_is_no_label_is_refused(shown: Shown, run: str, form: dict[str, str], status: int, said: str) -> None:
    whole = {"metric": "helpfulness", "who": "ann", "run": run, "turn_id": f"{run}-0", "label": "4", **form}
    refused = shown.admin.post("/label", data=whole)
    assert (refused.status_code, said in unescape(refused.text)) == (status, True), refused.text


@pytest.fixture
def conversations(shown: Shown) -> str:
    """A run with three conversations of two turns, each judged as a whole."""
    name = f"whole-{uuid.uuid4().hex}"
    for number in range(3):
        whole = f"{name}/{number}"
        shown.store(*(turn(f"{whole}-{at}", f"Ask {at}", run=name, conversation=whole, start=at) for at in range(2)))
        results = [judged(0.9, "goal_completion")]
        shown.finish(ScoredConversation(ConversationKey(name, whole, None), 2, results))
    return name


def test_conversations_are_labelled_as_wholes_by_their_first_turn(shown: Shown, conversations: str) -> None:
    asked = {"metric": "goal_completion", "who": "ann", "run": conversations}
    text, seen = shown.admin.get("/label", params=asked).text, []
    for number in range(3):
        assert f"ann: {number} of 3 conversations" in unescape(text)
        assert text.index("Ask 0") < text.index("Ask 1")  # all turns are shown
        assert VERDICT not in text
        seen.append(offered(text))
        text = give(shown, conversations, seen[-1], "pass", metric="goal_completion").text
    assert sorted(seen) == [f"{conversations}/{number}-0" for number in range(3)]
    assert "You have labelled every conversation." in text
    (kept,) = shown.admin.get(f"/api/turns/{quote(seen[0], safe='')}").json()["annotations"]
    assert (kept["evaluator"], kept["label"], kept["score"]) == ("goal_completion", "pass", 0.9)
    give(shown, conversations, seen[0], "fail", metric="goal_completion")  # replaces it
    assert "ann: 3 of 3 conversations" in unescape(shown.admin.get("/label", params=asked).text)
    assert 'href="label?metric=goal_completion"' in shown.admin.get("/judges").text
    begin = shown.admin.get("/label", params={**asked, "who": ""}).text
    assert re.findall(r'name="metric" value="(\w+)"|<option value="(\S+)" selected>', begin) == [
        ("goal_completion", ""),
        ("", conversations),
    ]
