"""`serve --suite FOLDER`: each suite's cases have their own evaluators, and each suite judges its own cases."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.proxied import proxied

ORDERS = """\
suite: orders
evaluators: [{contains: {search_text: no-answer-has-this}}]
gates: {contains: 0}
cases: [{id: talk, turns: [{user: Hello}]}]
"""
REFUNDS = """\
suite: refunds
evaluators: [{contains: {search_text: nor-this, id: asks}}]
gates: {asks: 0.9}
cases: [{id: refund, turns: [{user: Good day}]}]
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "suites"
    folder.mkdir()
    (folder / "orders.yaml").write_text(ORDERS)
    (folder / "refunds.yaml").write_text(REFUNDS)
    return folder


async def test_each_case_is_scored_and_judged_by_its_own_suite(folder: Path, tmp_path: Path) -> None:
    async with proxied(tmp_path, suite=str(folder)) as it:
        await it.talks("Hello", context="a")
        await it.talks("Good day", context="b")
        await it.talks("unheard of", context="c")
        await it.flushed()
        results = {turn["case_id"]: [one["evaluator"] for one in turn["evaluations"]] for turn in await it.turns()}
        assert results == {"talk": ["contains"], "refund": ["asks"], None: []}
        run = await it.get("/api/runs/nightly")
        assert run["verdict"]["passed"] is False
        assert [reason["message"] for reason in run["verdict"]["reasons"]] == ["refunds: asks: mean 0.00 is below 0.90"]
        assert "below 0.90" in (await it.admin.get("/api/runs/nightly/report")).text
        (turn,) = [turn for turn in await it.turns() if turn["case_id"] is None]
        refused = await it.admin.post("/api/suite/cases", json={"turn_id": turn["turn_id"]})
        assert (refused.status_code, "is a folder" in refused.text) == (409, True)
        page = (await it.admin.get(f"/turns/{turn['turn_id']}/case")).text
        assert "Append to" not in page
