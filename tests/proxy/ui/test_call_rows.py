"""Tool calls as rows: which come first, and what they say while they are closed."""

from __future__ import annotations

from typing import Any

from a2a_eval_proxy.features.pages.call_rows import MAX_SHOWN, call_rows


def made(name: str, **fields: Any) -> dict[str, Any]:
    return {"name": name, "source": "a2a_protocol", **fields}


def order(rows: dict[str, Any]) -> list[tuple[str, list[int]]]:
    return [(title, [row["number"] for row in part]) for title, part in rows["parts"]]


def test_calls_that_are_not_as_expected_come_first_with_their_numbers() -> None:
    calls = [made(f"tool_{n}", **({"error": "no"} if n == 4 else {})) for n in range(8)]
    changes: list[Any] = [["same", n, n] for n in range(8)]
    changes[6] = ["changed", 6, 6, ["a: expected 1, got 2", "b: was not expected (got 3)"], [{"key": "a"}]]
    changes.insert(2, ["removed", 8, None])
    expected = [{"name": f"tool_{n}"} for n in range(9)]
    rows = call_rows({"calls": calls, "expected_calls": expected, "changes": changes})
    assert order(rows) == [("", [9, 5, 7]), ("as expected", [1, 2, 3, 4, 6, 8])]
    wrong = [(row["sign"], row["brief"]) for row in rows["parts"][0][1]]
    assert wrong[1:] == [("✕", "error: no"), ("≠", "a: expected 1, got 2 and 1 more")]
    assert wrong[0][0] == "−"


def test_many_rows_are_in_parts_that_open() -> None:
    calls = [made("f") for _ in range(150)]
    assert order(call_rows({"calls": calls})) == [
        ("", list(range(1, MAX_SHOWN + 1))),
        ("more", list(range(MAX_SHOWN + 1, 151))),
    ]
    changes = [["added", None, n] for n in range(100)] + [["same", n, n + 100] for n in range(50)]
    found = order(call_rows({"calls": calls, "expected_calls": calls[:50], "changes": changes}))
    assert [(title, len(part)) for title, part in found] == [
        ("", MAX_SHOWN),
        ("more that are not as expected", 80),
        ("as expected", 50),
    ]


def test_few_calls_stay_together_and_none_are_none() -> None:
    calls = [made("f", error="no"), made("g", arguments={"id": "A", "n": [1, 2]}), made("h", unknown=True)]
    (part,) = call_rows({"calls": calls})["parts"]
    assert [(row["number"], row["brief"]) for row in part[1]] == [
        (1, "error: no"),
        (2, 'id: "A", n: [1, 2]'),
        (3, "unknown arguments"),
    ]
    assert not call_rows({})


def test_a_call_that_may_still_come_is_not_missing() -> None:
    shown = {"calls": [], "expected_calls": [{"name": "f", "any": True}], "changes": [["removed", 0, None]]}
    ((_, (row,)),) = call_rows(shown, is_open=True)["parts"]
    assert (row["kind"], row["is_wrong"], row["brief"]) == ("awaited", False, "any arguments")
