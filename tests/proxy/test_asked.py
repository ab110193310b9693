"""Which tasks a client asked the extension for."""

from __future__ import annotations

from a2a_eval_proxy.asked import AskedTasks


def test_what_was_asked_for_is_remembered() -> None:
    asked = AskedTasks()
    asked.add(["t1", "t2"])
    assert "t1" in asked
    assert "t3" not in asked
    assert None not in asked


def test_the_one_not_heard_of_for_longest_goes_first() -> None:
    asked = AskedTasks(limit=2)
    asked.add(["t1", "t2"])
    asked.add(["t1"])
    asked.add(["t3"])
    assert [task_id in asked for task_id in ("t1", "t2", "t3")] == [True, False, True]
