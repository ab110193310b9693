"""Cancels the work for a client that has disconnected."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, MutableMapping
from typing import Any

ON_GONE = "a2a_eval_proxy.on_gone"
"""The ASGI extension of our server: `scope["extensions"][ON_GONE]` takes a function for when the client leaves.

`receive` reports that too, but returns the body: only one task may call it, and an upload under back-pressure does not.
"""

OnGone = Callable[[Callable[[], None] | None], None]


class ClientWatch:
    """Cancels the current task when the client of `scope` disconnects, until `stop`."""

    def __init__(self, scope: MutableMapping[str, Any], loop: asyncio.AbstractEventLoop | None = None) -> None:
        """`loop`: the running one, where it is known."""
        self.gone = False
        self._task = asyncio.current_task(loop)
        self._on_gone: OnGone = scope["extensions"][ON_GONE]
        self._on_gone(self._leave)

    def _leave(self) -> None:
        self.gone = True
        if self._task is not None:
            self._task.cancel()

    def stop(self) -> None:
        """Stop watching."""
        self._on_gone(None)
