"""The turns that are open now."""

from __future__ import annotations

from ..admin.control import Control
from ..store.base import TurnJson


async def open_turns(control: Control) -> list[TurnJson]:
    """The newest open turns, with their calls and text so far."""
    return []
