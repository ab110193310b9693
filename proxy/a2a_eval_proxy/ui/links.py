"""Relative URLs, which work below any path prefix."""

from __future__ import annotations

from urllib.parse import quote, urlencode


class Links:
    """Makes URLs that lead from the page at `raw_path` (as in the request line) to others."""

    def __init__(self, raw_path: bytes) -> None:
        self.up = "../" * (raw_path.partition(b"?")[0].count(b"/") - 1)

    def __call__(self, *segments: str, **query: str | None) -> str:
        """`turns/01a1`, `./?run=nightly`: a path from the root of the pages, with a query; None is left out."""
        path = self.up + "/".join(quote(segment, safe="") for segment in segments)
        given = urlencode({name: value for name, value in query.items() if value is not None}, errors="replace")
        return (path or "./") + (f"?{given}" if given else "")
