"""Loads files again when others replace them, as Kubernetes and cert-manager do."""

from __future__ import annotations

import asyncio
import hashlib
import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from ..errors import ConfigError

logger = logging.getLogger(__name__)

CHECK_EVERY_S = 5.0

_Contents = tuple[bytes | str, ...]


@dataclass(slots=True)
class _Watched:
    what: str
    files: tuple[str, ...]
    loads: list[Callable[[], None]]
    seen: _Contents


class FileWatch:
    """Loads files, and again each time their contents change.

    Compares contents, not times, so symbolic links, renames and clocks make no difference.
    """

    def __init__(self) -> None:
        self._watched: list[_Watched] = []
        self._task: asyncio.Task[None] | None = None

    def add(self, what: str, files: Iterable[str], load: Callable[[], None]) -> None:
        """Call `load` now, and in a thread whenever `files` have changed; `what` is their name in the log.

        Several parts of the program may load the same files under the same name.

        `load` raises ConfigError where the contents are not usable, and must keep the former ones in use; the error is
        logged once for the same contents. Raises ConfigError where the first load fails.
        """
        names = tuple(files)
        seen = _contents(names)
        load()
        known = next((watched for watched in self._watched if (watched.what, watched.files) == (what, names)), None)
        if known is not None:
            known.loads.append(load)
        elif names:
            self._watched.append(_Watched(what, names, [load], seen))

    def start(self) -> None:
        """Check every `CHECK_EVERY_S` seconds from now on, if there are files to watch."""
        if self._watched:
            self._task = asyncio.get_running_loop().create_task(self._check_regularly())

    async def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait({self._task})

    def check(self) -> None:
        """Load the files that have changed. Blocks while it reads them."""
        for watched in list(self._watched):
            contents = _contents(watched.files)
            if contents == watched.seen:
                continue
            try:
                for load in watched.loads:
                    load()
            except ConfigError as error:
                if _contents(watched.files) == contents:  # else they are being replaced now: check again next time
                    watched.seen = contents
                    logger.error("%s cannot be replaced, the earlier one stays in use: %s", watched.what, error)
            else:
                watched.seen = contents
                logger.info("%s: replaced by what %s now hold(s)", watched.what, ", ".join(watched.files))

    async def _check_regularly(self) -> None:
        while True:
            await asyncio.sleep(CHECK_EVERY_S)
            await asyncio.to_thread(self.check)


def _contents(files: Iterable[str]) -> _Contents:
    return tuple(map(_content, files))


def _content(path: str) -> bytes | str:
    """A digest of the file's contents, or why it cannot be read."""
    try:
        if not Path(path).is_file():
            return "no file"
        with Path(path).open("rb") as file:
            return hashlib.file_digest(file, "sha256").digest()
    except OSError as error:
        return error.strerror or "unreadable"
