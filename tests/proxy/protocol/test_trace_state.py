"""The proxy's member of `tracestate`: what it names, and what becomes of the others."""

from __future__ import annotations

import pytest
from a2a_eval_proxy.protocol.trace_state import KEY, naming_turn, turn_named
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.trace import TraceState

ONE, TWO = "1" * 32, "2" * 32


@pytest.mark.parametrize(
    ("value", "turn"),
    [
        ("", ""),
        ("a=1,b=2", ""),
        (f"{KEY}={ONE}", ONE),
        (f"a=1, {KEY}={ONE} ,b=2", ONE),
        (f"a={KEY}={ONE}", ""),
        (f"x{KEY}={ONE}", ""),
        (f"{KEY}=", ""),
        (f"{KEY}={ONE}0", ""),
        (f"{KEY}={'g' * 32}", ""),
        (f"{KEY}=,{KEY}={ONE}", ""),
    ],
)
def test_the_turn_that_is_named(value: str, turn: str) -> None:
    assert turn_named(value) == turn


def test_ours_comes_first_and_the_others_stay_as_they_are() -> None:
    assert naming_turn(TWO, "") == f"{KEY}={TWO}"
    assert naming_turn(TWO, f"a=1, {KEY}={ONE},b= 2\t,{KEY}=x,,c") == f"{KEY}={TWO},a=1,b= 2\t,,c"


def test_there_are_at_most_32_members() -> None:
    members = [f"v{number}=1" for number in range(32)]
    assert naming_turn(TWO, ",".join(members)).split(",") == [f"{KEY}={TWO}", *members[:31]]


KEYS = st.from_regex(r"[a-z][a-z0-9_*/-]{0,20}", fullmatch=True).filter(lambda key: key != KEY)
VALUES = st.text("!#$%&()*+-./0123456789:;<>?@AZ[]^_`az{|}~", min_size=1, max_size=20)


@given(st.dictionaries(KEYS, VALUES, max_size=31), st.booleans())
def test_opentelemetry_reads_it_and_passes_it_on(others: dict[str, str], named: bool) -> None:
    value = TraceState(list(others.items())).to_header()
    value = naming_turn(TWO, naming_turn(ONE, value) if named else value)
    read = TraceState.from_header([value])
    assert turn_named(read.to_header()) == TWO
    assert {key: read[key] for key in others} == others
