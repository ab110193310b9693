from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ...feature import Feature

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response
    from starlette.routing import Route

    from ...admin.api_route import NoQuery
    from ...admin.control import Control
    from ...store import Store
    from .trees import StoredTrees


def trees(store: Store) -> StoredTrees:
    from .trees import StoredTrees

    return StoredTrees(store)


def routes(control: Control) -> Sequence[Route]:
    from ...admin.api_route import api_route, json_response
    from ...admin.turns_api import no_turn
    from .trees import family_of

    async def tree(_: Request, turn_id: str, given: NoQuery) -> Response:
        family = await family_of(control.store, turn_id)
        if family is None:
            raise no_turn(turn_id)
        return json_response({"turn_id": turn_id, **family.tree_below(family.root_of(turn_id)).to_dict()})

    return [api_route("GET", "/api/turns/{turn_id}/tree", tree)]


FEATURE = Feature(trees=trees, routes=routes)
