"""What changes in open turns: whoever applies the changes in order has the turn as it is."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from a2a_eval_proxy.capture.task_fold import FoldRules
from a2a_eval_proxy.capture.turn_book import TurnBook
from a2a_eval_proxy.capture.turn_changes import ChangeTracker, ShownTurn, TurnChanges
from a2a_eval_proxy.turn import Turn
from a2a_tool_capture import METADATA_KEY, URI, ToolCall
from hypothesis import given
from hypothesis import strategies as st

calls = st.builds(ToolCall, name=st.sampled_from("ab"), id=st.sampled_from("12"), result=st.none() | st.just("ok"))
states = st.builds(
    Turn,
    *map(st.just, ("t", "r", "agent", "JSONRPC", "1.0", 0.0)),
    state=st.sampled_from([None, "TASK_STATE_WORKING", "TASK_STATE_COMPLETED"]),
    task_id=st.sampled_from(["", "task"]),
    response_text=st.text("xy", max_size=6),
    tool_calls=st.lists(calls, max_size=5),
)


class Watcher:
    """Keeps a turn up to date as the documentation of live events says."""

    def __init__(self) -> None:
        self.calls: list[ToolCall] = []
        self.text = ""
        self.state: tuple[str | None, str] = (None, "")

    def apply(self, changes: TurnChanges) -> None:
        if changes.state:
            self.state = (changes.turn.state, changes.turn.task_id)
        for index, call in changes.pick(changes.turn.tool_calls):
            self.calls[index : index + 1] = [call]
        if changes.removed:
            del self.calls[changes.count :]
        if changes.characters is not None:
            self.text = self.text + changes.text if changes.append else changes.text
            assert len(self.text) == changes.characters


@given(st.lists(states, max_size=8), st.booleans())
def test_the_changes_add_up_to_the_turn(turns: list[Turn], brief: bool) -> None:
    shown, watcher = ShownTurn(), Watcher()
    for turn in turns:
        changes = shown.changes(turn)
        if changes is not None:
            watcher.apply(replace(changes, turn=changes.brief()) if brief else changes)
        assert watcher.calls == turn.tool_calls
        assert watcher.text == turn.response_text
        assert watcher.state == (turn.state, turn.task_id)
        assert shown.changes(turn) is None, "nothing is new twice"


def chunk(task: str, number: int, text: str) -> dict[str, Any]:
    call = {"id": f"{number}", "name": "search", "arguments": {}}
    artifact = {
        "artifactId": "a",
        "parts": [{"text": text}],
        "metadata": {METADATA_KEY: [call]},
        "extensions": [URI],
    }
    return {"artifactUpdate": {"taskId": task, "contextId": "c", "artifact": artifact, "append": number > 1}}


def test_turns_of_a_book_are_reported_once_each_and_a_few_at_a_time() -> None:
    woken: list[None] = []
    closed: list[Turn] = []
    book = TurnBook(FoldRules(), "proxy", lambda task_id, observation: None, closed.append)
    watchers = [book.open(Turn(f"t{number}", "r", "agent", "JSONRPC", "1.0", 0.0), 0.0) for number in range(3)]
    book.feed(watchers[0], chunk("task0", 1, "before "), 1.0, live=True, size=100)  # before anybody watches
    book.live = live = ChangeTracker(lambda: woken.append(None))
    for number, watcher in enumerate(watchers):
        for part in (1, 2):
            book.feed(watcher, chunk(f"task{number}", part, f"{part} "), 2.0, live=True, size=100)
    assert len(woken) == 1
    first, more = live.changes(2)
    assert ([new.turn.turn_id for new in first], more) == (["t0", "t1"], True)
    assert [(new.changed, new.count, new.text) for new in first] == [([0, 1], 2, "1 2 ")] * 2
    second, more = live.changes(2)
    assert ([new.turn.turn_id for new in second], more) == (["t2"], False)
    book.feed(watchers[0], chunk("task0", 3, "3"), 3.0, live=True, size=100)
    assert len(woken) == 2
    for number, watcher in enumerate(watchers):
        status = {"state": "TASK_STATE_COMPLETED"}
        over = {"statusUpdate": {"taskId": f"task{number}", "contextId": "c", "status": status}}
        book.feed(watcher, over, 3.0, live=True, size=100)
        book.end(watcher, 4.0)
    ends = [live.closed(turn) for turn in closed]
    assert [(end.changed, end.text) for end in ends if end is not None and end.text] == [([2], "3")]
    assert live.changes(10) == ([], False)
