"""The clock of turns, and what setting the system clock does to it."""

from __future__ import annotations

from a2a_eval_proxy.clock import Clock, JumpGuard

DAY = 86_400.0


class System:
    """The system's clocks, in the hands of a test."""

    def __init__(self) -> None:
        self.wall = 1_800_000_000.0
        self.steady = 50.0
        self.clock = Clock(lambda: self.wall, lambda: self.steady)

    def passes(self, seconds: float) -> None:
        self.wall += seconds
        self.steady += seconds


def test_it_is_the_systems_time() -> None:
    system = System()
    system.passes(7)
    assert system.clock.now() == system.wall


def test_it_goes_on_evenly_while_turns_are_open_and_is_right_again_afterwards() -> None:
    for jump in (-DAY, DAY):
        system = System()
        before = system.clock.now()
        system.wall += jump
        for _ in range(10):
            system.passes(0.5)
            system.clock.align(busy=True)
        assert abs(system.clock.now() - before - 5) <= 0.1
        system.clock.align(busy=False)
        assert abs(system.clock.now() - system.wall) < 1e-3


def test_small_adjustments_are_taken_over_while_turns_are_open() -> None:
    system = System()
    system.wall += 0.05
    for _ in range(10):
        system.passes(0.5)
        system.clock.align(busy=True)
    assert abs(system.clock.now() - system.wall) < 1e-3


def test_nothing_is_deleted_by_age_for_a_day_after_the_clock_was_set_ahead() -> None:
    guard = JumpGuard()
    assert guard.may_delete(0, 0)
    assert guard.may_delete(600, 600)
    assert not guard.may_delete(1_200 + 365 * DAY, 1_200)
    assert not guard.may_delete(1_800 + 365 * DAY, 1_800)
    assert guard.may_delete(1_200 + 366 * DAY, 1_200 + DAY)


def test_a_clock_that_is_set_back_deletes_nothing_early_and_holds_nothing_up() -> None:
    guard = JumpGuard()
    assert guard.may_delete(10 * DAY, 0)
    assert guard.may_delete(9 * DAY, 600)
