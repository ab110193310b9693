"""Reading files that settings and suites name."""

from __future__ import annotations

import errno
import stat
from pathlib import Path
from typing import BinaryIO


def open_regular(path: str | Path) -> BinaryIO:
    """Open a file for reading. Raises OSError, also for a named pipe: to open it would wait for a writer, and with it
    all that the process does.

    What a shell gives a command below /dev, such as `<(...)`, is read.
    """
    mode = Path(path).stat().st_mode
    if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode) or Path(path).absolute().is_relative_to("/dev")):
        raise OSError(errno.EINVAL, "it is not a regular file", str(path))
    return Path(path).open("rb")
