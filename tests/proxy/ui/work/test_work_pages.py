"""The forms and parts of a turn's page, without a browser."""

from __future__ import annotations

import json
import uuid

import pytest
from support.turn_samples import result, turn

from ..conftest import Shown

HOSTILE = "</pre><script>alert(1)</script>"


@pytest.fixture
def turn_id(shown: Shown) -> str:
    """A stored turn, which another process captured."""
    name = uuid.uuid4().hex
    shown.store(turn(name, HOSTILE, evaluations=[result("tool_error", 1.0)], run="work"))
    return name


def test_annotations_are_added_and_deleted_by_forms(shown: Shown, turn_id: str) -> None:
    path = f"/turns/{turn_id}/annotations"
    form = {"assessment": "wrong", "evaluator": "", "note": HOSTILE, "who": "ann"}
    added = shown.admin.post(path, data=form)
    assert (added.status_code, added.headers["location"]) == (303, f"../../turns/{turn_id}#annotations")
    page = shown.admin.get(f"/turns/{turn_id}").text
    assert "<script>alert" not in page
    assert "&lt;/pre&gt;&lt;script&gt;" in page
    (one,) = shown.admin.get(f"/api/turns/{turn_id}").json()["annotations"]
    assert (one["evaluator"], one["note"]) == (None, HOSTILE)
    assert shown.admin.post(path, data={"delete": one["annotation_id"]}).status_code == 303
    assert "annotations" not in shown.admin.get(f"/api/turns/{turn_id}").json()


@pytest.mark.parametrize(
    ("body", "status", "words"),
    [
        (b"assessment=fine", 400, "assessment: expected"),
        (b"delete=none", 404, "has no annotation"),
        (b"&".join(b"a%d=1" % number for number in range(200)), 400, "Maximum number of fields is 100"),
        (b"note=" + b"x" * 70_000, 400, "maximum size of 64KB"),
        (b"\xff\x00=%ff&&&", 400, "no such field"),
    ],
)
def test_other_forms_are_refused(shown: Shown, turn_id: str, body: bytes, status: int, words: str) -> None:
    form = {"content-type": "application/x-www-form-urlencoded"}
    refused = shown.admin.post(f"/turns/{turn_id}/annotations", content=body, headers=form)
    assert (refused.status_code, words in refused.text) == (status, True)


def test_forms_of_other_sites_are_refused(shown: Shown, turn_id: str) -> None:
    for path in ("annotations", "case"):
        foreign = {"origin": "http://evil.example", "sec-fetch-site": "cross-site"}
        refused = shown.admin.post(f"/turns/{turn_id}/{path}", data={"assessment": "right"}, headers=foreign)
        assert refused.status_code == 403


def test_pages_of_a_turn_without_wire_or_suite_say_so(shown: Shown, turn_id: str) -> None:
    assert "is not known" in shown.admin.get(f"/turns/{turn_id}/wire").text
    case = shown.admin.get(f"/turns/{turn_id}/case").text
    assert "With <code>--suite FILE</code>" in case
    assert "&lt;script&gt;" in case
    assert shown.admin.get("/turns/none/case").status_code == 404
    refused = shown.admin.post(f"/turns/{turn_id}/case", data={"action": "append"})
    assert (refused.status_code, "no suite file was given" in refused.text) == (409, True)
    unknown = shown.admin.post(f"/turns/{turn_id}/case", data={"action": "bind", "case_id": "none"})
    assert (unknown.status_code, "no case" in unknown.text) == (404, True)


def test_hostile_events_stay_text_on_the_wire(shown: Shown) -> None:
    event = {
        "statusUpdate": {"taskId": "t", "contextId": "c", "status": {"state": "TASK_STATE_COMPLETED"}},
        "x": HOSTILE,
    }
    with shown.streaming("hostile wire", [event]):
        pass
    shown.flush()
    (found,) = shown.admin.get("/api/turns", params={"q": "hostile wire"}).json()["items"]
    page = shown.admin.get(f"/turns/{found['turn_id']}/wire").text
    assert "<script>alert" not in page
    assert json.dumps(HOSTILE)[1:-1].replace("<", "&lt;").replace(">", "&gt;") in page
