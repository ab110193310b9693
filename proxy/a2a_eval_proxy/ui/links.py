"""Relative URLs, which work below any path prefix."""

from __future__ import annotations

from collections.abc import Callable
from urllib.parse import quote, urlencode

from starlette.requests import Request


class Links:
    """Makes URLs that lead from the page at `raw_path` (as in the request line) to others."""

    @classmethod
    def of(cls, request: Request) -> Links:
        """URLs on the page that this request asks for."""
        return cls(request.scope.get("raw_path") or request.scope["path"].encode())

    def __init__(self, raw_path: bytes) -> None:
        self.up = "../" * (raw_path.partition(b"?")[0].count(b"/") - 1)

    def __call__(self, *segments: str, **query: str | None) -> str:
        """`turns/01a1`, `./?run=nightly`: a path from the root of the pages, with a query; None is left out."""
        path = self.up + "/".join(quote(segment, safe="") for segment in segments)
        given = urlencode({name: value for name, value in query.items() if value is not None}, errors="replace")
        return (path or "./") + (f"?{given}" if given else "")


def named(link: Callable[..., str], segment: str, name: str, **query: str | None) -> str:
    """The page below `segment` that a text of an agent or user names; the inverse is `name_in`.

    The name is in the path, or in the query if it consists of dots: browsers resolve these in a path.
    """
    return link(segment, name, **query) if name.strip(".") else link(segment, "", name=name, **query)


def name_in(request: Request) -> str:
    """The name in the URL of a page, on a route that ends with `{name:path}`."""
    name: str = request.path_params["name"] or request.query_params.get("name", "")
    return name
