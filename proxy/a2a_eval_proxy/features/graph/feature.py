from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ...feature import Feature

if TYPE_CHECKING:
    from starlette.routing import Route

    from ...admin.control import Control
    from ...store import Store
    from .trees import StoredTrees


def trees(store: Store) -> StoredTrees:
    from .trees import StoredTrees

    return StoredTrees(store)


def routes(control: Control) -> Sequence[Route]:
    from .tree_api import tree_routes

    return tree_routes(control)


FEATURE = Feature(trees=trees, routes=routes)
