"""The bound of memory, as control groups have it, and its shares."""

from __future__ import annotations

from pathlib import Path

import pytest
from a2a_eval_proxy.memory import MIB, ContainerMemory, bound


@pytest.mark.parametrize(("limit", "expected"), [(256, 256), (512, 512), (8192, 2048), (None, 512)])
def test_the_bound_is_the_limit_of_the_container(limit: int | None, expected: int) -> None:
    assert bound(None if limit is None else limit * MIB) == expected * MIB


@pytest.mark.parametrize(
    ("files", "used", "limit"),
    [
        (
            {"memory.max": "500\n", "memory.current": "480\n", "memory.stat": "anon 300\ninactive_file 80\nshmem 1\n"},
            400,
            500,
        ),
        ({"memory.max": "max\n", "memory.current": "480\n", "memory.stat": ""}, 480, None),
        ({}, None, None),
        ({"memory.max": "junk", "memory.current": "junk"}, None, None),
    ],
)
def test_what_a_container_takes_and_may_take(
    files: dict[str, str], used: int | None, limit: int | None, tmp_path: Path
) -> None:
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    container = ContainerMemory(tmp_path)
    assert (container.used, container.limit) == (used, limit)
