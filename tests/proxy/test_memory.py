"""The bound of memory, as control groups have it, and its shares."""

from __future__ import annotations

from pathlib import Path

import pytest
from a2a_eval_proxy.memory import MIB, bound, return_large_blocks, share


@pytest.mark.parametrize(
    ("limit", "expected"),
    [
        (str(256 * MIB), 256),
        (str(512 * MIB), 512),
        (str(8192 * MIB), 2048),
        ("max", 512),  # version 2 without a limit
        ("9223372036854771712", 512),  # version 1 without a limit
    ],
)
def test_the_bound_is_the_limit_of_the_container(limit: str, expected: int, tmp_path: Path) -> None:
    file = tmp_path / "memory.max"
    file.write_text(limit + "\n")
    assert bound((str(tmp_path / "other"), str(file))) == expected * MIB


def test_without_control_groups_there_is_a_usual_bound(tmp_path: Path) -> None:
    assert bound((str(tmp_path / "none"),)) == 512 * MIB


def test_processes_divide_a_share() -> None:
    assert share(8) // 4 == share(8, 4)


def test_blocks_are_returned_where_the_c_library_can() -> None:
    return_large_blocks()
