"""New behaviour is accepted on a page: reviewed, written on confirmation, taken back."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.turn_samples import call, result, turn

from .conftest import Shown, shown_proxy

SUITE = """\
# The shop.
suite: shop
evaluators: [tool_trajectory]
cases:
  - id: refund  # money
    turns:
      - user: Pay back.
        expect: {tool_calls: [{name: refund, arguments: {amount: 14.5, order: {$regex: 'ORD-[0-9]+'}}}]}
  - id: status
    turns:
      - user: Where is it?
        expect: {tool_calls: [{name: lookup}]}
"""


@pytest.fixture
def suite(tmp_path: Path) -> Path:
    file = tmp_path / "suite.yaml"
    file.write_text(SUITE)
    return file


@pytest.fixture
def shop(tmp_path: Path, suite: Path) -> Iterator[Shown]:
    with shown_proxy(tmp_path, suite=str(suite)) as proxy:
        failed = [result("tool_trajectory", 0.0, reason="call 1 (refund) differs")]
        proxy.store(
            turn("r", "Pay back.", [call("refund", amount=29, order="ORD-7")], failed, case="refund", run="monday"),
            turn("s", "Where is it?", [call("track")], failed, case="status", run="monday", start=1),
        )
        yield proxy


def chosen(page: str) -> dict[str, str]:
    """The fields of the form, with every change chosen."""
    taken = dict(re.findall(r'name="(take-\d+)" value="(\w+)" checked', page))
    return {**taken, "run": "monday", "action": "accept"}


def amount_expected(shop: Shown) -> float:
    """What turns are scored by from now on."""
    diff = shop.admin.get("/api/turns/r/diff").json()
    amount: float = diff["expected"][0]["arguments"]["amount"]
    return amount


def test_a_change_is_reviewed_written_and_taken_back(shop: Shown, suite: Path) -> None:
    assert 'href="../accept?run=monday&amp;case=refund">Accept new behaviour' in shop.admin.get("/turns/r").text
    assert 'href="../accept?run=monday">Accept new behaviour' in shop.admin.get("/runs/monday?wait=1").text
    page = shop.admin.get("/accept?run=monday&case=refund").text
    lines = re.findall(r'<span class="(added|removed)">(.+?)</span>', page)
    assert [(kind, "amount: 14.5" in line, "amount: 29" in line) for kind, line in lines] == [
        ("removed", True, False),
        ("added", False, True),
    ]
    assert len(chosen(page)) == 3
    written = shop.admin.post("/accept", data={**chosen(page), "case": "refund"})
    assert (written.status_code, written.headers["location"]) == (303, "accept?run=monday&case=refund&done=1")
    assert suite.read_text() == SUITE.replace("amount: 14.5", "amount: 29")
    after = shop.admin.get("/accept?run=monday&case=refund&done=1").text
    assert "1 change accepted" in after
    assert amount_expected(shop) == 29
    assert shop.admin.post("/accept", data={"action": "undo", "run": "monday"}).status_code == 303
    assert suite.read_text() == SUITE
    assert amount_expected(shop) == 14.5


def test_only_what_the_reader_saw_and_chose_is_written(shop: Shown, suite: Path) -> None:
    page = shop.admin.get("/accept?run=monday").text
    form = chosen(page)
    assert len(form) == 4
    none = shop.admin.post("/accept", data={"run": "monday", "action": "accept"})
    assert (none.status_code, "No change is chosen" in none.text) == (409, True)
    shop.store(turn("later", "Pay back.", [call("refund", amount=31, order="ORD-7")], [result("tool_trajectory", 0.0)],
                    case="refund", run="monday", start=9))  # fmt: skip
    stale = shop.admin.post("/accept", data=form)
    assert (stale.status_code, "review the changes again" in stale.text) == (409, True)
    assert suite.read_text() == SUITE
    one = {name: value for name, value in form.items() if name != "take-1"}
    assert shop.admin.post("/accept", data=one).status_code == 303
    assert "track" in suite.read_text()
    assert "amount: 14.5" in suite.read_text()


def test_an_edit_after_the_last_accepted_change_is_not_lost(shop: Shown, suite: Path) -> None:
    form = chosen(shop.admin.get("/accept?run=monday").text)
    assert shop.admin.post("/accept", data=form).status_code == 303
    assert "Undo the last accepted change" in shop.admin.get("/accept?run=monday").text
    edited = suite.read_text() + "# mine\n"
    suite.write_text(edited)
    later = (suite.parent / f".{suite.name}.before-accept").stat().st_mtime_ns + 1_000_000_000
    os.utime(suite, ns=(later, later))
    assert "Undo the last accepted change" not in shop.admin.get("/accept?run=monday").text
    refused = shop.admin.post("/accept", data={"action": "undo", "run": "monday"})
    assert (refused.status_code, "was edited after the last accepted change" in refused.text) == (409, True)
    assert suite.read_text() == edited


def test_a_read_only_suite_is_only_shown(shop: Shown, suite: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.access", lambda path, mode: False)  # root may write everything
    page = shop.admin.get("/accept?run=monday").text
    assert "read-only here: copy the changes" in page
    assert "amount: 29" in page
    assert 'type="checkbox"' not in page
    form = chosen(page) | {"take-1": "0" * 16}
    assert shop.admin.post("/accept", data=form).status_code == 409
    assert suite.read_text() == SUITE


def test_other_sites_and_other_stores_accept_nothing(shop: Shown, shown: Shown, suite: Path) -> None:
    form = chosen(shop.admin.get("/accept?run=monday").text)
    foreign = {"origin": "http://evil.example", "sec-fetch-site": "cross-site"}
    assert shop.admin.post("/accept", data=form, headers=foreign).status_code == 403
    assert suite.read_text() == SUITE
    assert shop.admin.get("/accept?run=none").status_code == 404
    refused = shown.admin.get("/accept?run=nightly")
    assert (refused.status_code, "There is no suite file here" in refused.text) == (409, True)
    assert shop.admin.post("/accept", data={"action": "undo"}).status_code == 409


def test_with_a_token_only_who_is_logged_in_accepts(locked: Shown) -> None:
    assert locked.admin.post("/accept", data={"run": "x", "action": "accept"}).status_code in (401, 403)
