"""The clock of turns, and what setting the system clock does to it."""

from __future__ import annotations

from a2a_eval_proxy.clock import Clock

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


def test_it_goes_on_evenly_while_turns_are_open_and_is_right_again_afterwards() -> None:
    for jump in (-DAY, DAY):
        system = System()
        before = system.clock.now()
        assert before == system.wall
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
