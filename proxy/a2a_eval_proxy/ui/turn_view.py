"""A turn as the report shows it: with what its case expects, bounded in size."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from tool_call_evaluators.report.page import turn_data
from tool_call_evaluators.report.shorten import Shortener

from ..admin.control import Control
from ..scoring.turn_in_case import turn_in_case
from ..store.base import TurnJson

TEXT_LIMITS = (200_000, 20_000, 4_000, 1_000)
"""Limits on the length of a text, in characters; the first with which a turn fits is used."""
MAX_CHARACTERS = 2_000_000


async def shown_turn(control: Control, turn: TurnJson) -> dict[str, Any]:
    """The data of a turn as in the report (`report.page`), with its aligned calls if its case expects some."""
    planned = await turn_in_case(control.cases, control.store, turn)

    def data() -> dict[str, Any]:
        for limit in TEXT_LIMITS:
            data = turn_data(planned.report, planned.conversation, planned.turn, turn["started_at"], Shortener(limit))
            if len(json.dumps(data, default=str)) <= MAX_CHARACTERS:
                break
        return data

    return await asyncio.to_thread(data)  # comparing many calls takes time
