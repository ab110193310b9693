"""The one bound of the proxy's memory, and its shares.

All processes of the proxy together are to stay within the limit of their container, or within 512 MiB. Each holder of
bytes whose number others decide has a share, and counts what it drops. What the programs themselves take is left over.
"""

from __future__ import annotations

import ctypes
import os
from pathlib import Path

MIB = 1024 * 1024

_USUAL_BYTES, _MOST_BYTES = 512 * MIB, 2048 * MIB
"""The bound where there is no limit, and the highest bound: an outage is not to fill a large machine."""

_LIMIT_FILES = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")
"""Of control groups, versions 2 and 1, as a container sees its own."""

_NO_LIMIT = 2**60
"""Version 1 shows a number beyond that where there is no limit."""

_M_MMAP_THRESHOLD, _M_ARENA_MAX = -3, -8
_LARGE_BYTES, _ARENAS = 128 * 1024, 2


def bound(limit_files: tuple[str, ...] = _LIMIT_FILES) -> int:
    """Bytes that the proxy may take."""
    for file in limit_files:
        try:
            limit = Path(file).read_text("ascii").strip()
        except OSError:
            continue
        is_set = limit.isdecimal() and int(limit) < _NO_LIMIT
        return min(int(limit), _MOST_BYTES) if is_set else _USUAL_BYTES
    return _USUAL_BYTES


_BOUND = bound()


def share(part: int, processes: int = 1) -> int:
    """Bytes of one holder: the given part of the bound, divided among processes that each have such a holder."""
    return _BOUND // part // processes


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
