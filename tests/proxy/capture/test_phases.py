"""The table of a turn's phases, and its diagram in the documentation."""

from __future__ import annotations

from pathlib import Path

import pytest
from a2a_eval_proxy.capture.phases import TRANSITIONS, TurnEvent, TurnPhase
from a2a_eval_proxy.capture.task_fold import OpenTurn
from a2a_eval_proxy.turn import Turn

PAGE = Path(__file__).parents[3] / "proxy" / "docs" / "architecture.md"


def diagram() -> str:
    """`TRANSITIONS` as a Mermaid state diagram; events that change nothing are left out."""
    lines = ["stateDiagram-v2"]
    names = {phase: phase.replace(" ", "_") for phase in TurnPhase}
    lines += [f'    state "{phase}" as {name}' for phase, name in names.items() if " " in phase]
    for phase, row in TRANSITIONS.items():
        for following in TurnPhase:
            events = [event for event, target in row.items() if target is following and following is not phase]
            if events:
                lines.append(f"    {names[phase]} --> {names[following]}: {', '.join(events)}")
    return "\n".join([*lines, f"    [*] --> {TurnPhase.WAITING}: message sent", f"    {TurnPhase.CLOSED} --> [*]"])


def test_the_documentation_shows_the_table() -> None:
    page = PAGE.read_text("utf-8")
    shown = page.partition("<!-- turn phases -->\n")[2].partition("<!-- /turn phases -->")[0]
    assert shown == f"```mermaid\n{diagram()}\n```\n"


def test_every_phase_is_reached_and_ends_closed() -> None:
    reached, closing = {TurnPhase.WAITING}, {TurnPhase.CLOSED}
    for _ in TurnPhase:
        reached |= {target for phase in reached for target in TRANSITIONS[phase].values()}
        closing |= {phase for phase, row in TRANSITIONS.items() if closing & set(row.values())}
    assert reached == closing == set(TRANSITIONS) == set(TurnPhase)
    assert {event for row in TRANSITIONS.values() for event in row} == set(TurnEvent)


def test_an_event_that_a_phase_does_not_allow_is_an_error() -> None:
    turn = OpenTurn(Turn("turn-1", "run", "http://agent", "JSONRPC", "1.0", 1.0))
    with pytest.raises(KeyError):
        turn.step(TurnEvent.LINGERED, 1.0)
    assert turn.phase is TurnPhase.WAITING
