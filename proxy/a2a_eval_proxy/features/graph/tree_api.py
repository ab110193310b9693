"""The route of the tree to which a turn belongs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

from pydantic import BaseModel, Field
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from ...admin.api_route import api_route, json_response
from ...admin.control import Control
from ...admin.turns_api import no_turn
from .trees import MOST_DEPTH, MOST_SHOWN, MOST_TURNS, family_of


class _Below(BaseModel):
    """How much of a tree is shown: the most turns, and the most on one way down."""

    turns: Annotated[int, Field(ge=1, le=MOST_TURNS)] = MOST_SHOWN
    depth: Annotated[int, Field(ge=1, le=MOST_DEPTH)] = MOST_DEPTH


def tree_routes(control: Control) -> Sequence[Route]:
    async def tree(_: Request, turn_id: str, given: _Below) -> Response:
        family = await family_of(control.store, turn_id)
        if family is None:
            raise no_turn(turn_id)
        found = family.tree_below(family.root_of(turn_id), turns=given.turns, depth=given.depth)
        return json_response({"turn_id": turn_id, **found.to_dict()})

    return [api_route("GET", "/api/turns/{turn_id}/tree", tree, _Below)]
