"""The one bound of the proxy's memory, its shares, and what counts against them.

All processes of the proxy together are to stay within the limit of their container, or within 512 MiB. Each holder of
bytes whose number others decide has a share, and counts what it drops. What the programs themselves take is left over.
"""

from __future__ import annotations

import ctypes
import os
import re
from pathlib import Path
from sys import getsizeof
from typing import Any

MIB = 1024 * 1024

_USUAL_BYTES, _MOST_BYTES = 512 * MIB, 2048 * MIB
"""The bound where there is no limit, and the highest bound: an outage is not to fill a large machine."""

_VALUE_BYTES = 200
"""Of what has a comma or an opening bracket in JSON, at most: an empty object in a list takes 70 bytes, an object with
one member 180; a tool call has two such marks."""

_WIDEST = 4
"""Bytes of a character, of all characters of a string, as soon as one of them is an emoji."""

_ESCAPE = re.compile(rb"\\u")
"""A pattern: `in` takes twice as long for two bytes."""

_M_MMAP_THRESHOLD, _M_ARENA_MAX = -3, -8
_LARGE_BYTES, _ARENAS = 128 * 1024, 2


class ContainerMemory:
    """What the container of this process takes, and may take, of memory. In bytes; None where that is not known."""

    def __init__(self, group: Path = Path("/sys/fs/cgroup")) -> None:
        """`group`: the folder of its control group, of version 2."""
        self._folder = group

    @property
    def limit(self) -> int | None:
        return self._number("memory.max")

    @property
    def used(self) -> int | None:
        """Without files that the kernel may drop: what counts when it looks for memory."""
        total = self._number("memory.current")
        return None if total is None else max(0, total - (self._number("memory.stat", "inactive_file") or 0))

    def _number(self, file: str, key: str = "") -> int | None:
        try:
            words = (self._folder / file).read_text("ascii").split()
            return int(words[words.index(key) + 1 if key else 0])
        except (OSError, ValueError, IndexError):
            return None


def bound(limit: int | None) -> int:
    """Bytes that the proxy may take, where its container may take `limit`."""
    return _USUAL_BYTES if limit is None else min(limit, _MOST_BYTES)


_BOUND = bound(ContainerMemory().limit)


def share(part: int) -> int:
    """Bytes of one holder: the given part of the bound."""
    return _BOUND // part


def of_json(text: bytes) -> int:
    """The most memory that objects made of a JSON text can take, in bytes: known before they are made."""
    size = len(text)
    wide = 1 if text.isascii() and _ESCAPE.search(text) is None else _WIDEST
    return wide * size + _VALUE_BYTES * (size - len(text.translate(None, b",[{")))  # a third less than three `count`s


def measured(value: Any) -> int:
    """Bytes of memory that a JSON value takes, about: what it has twice counts twice."""
    size, found = 0, [value]
    for one in found:  # which grows
        size += getsizeof(one)
        if isinstance(one, dict):
            found += one
            found += one.values()
        elif isinstance(one, list):
            found += one
    return size


def return_large_blocks() -> None:
    """Have the C library return large blocks to the system when they are freed: bodies come and go.

    By default glibc keeps blocks up to 32 MiB for reuse once one of that size was freed, and keeps free memory for each
    thread.
    """
    if os.name != "posix":  # Windows has no library without a name
        return
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(_M_MMAP_THRESHOLD, _LARGE_BYTES)
        mallopt(_M_ARENA_MAX, _ARENAS)
