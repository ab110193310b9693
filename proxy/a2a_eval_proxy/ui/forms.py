"""Reads the forms of pages."""

from __future__ import annotations

from urllib.parse import parse_qs

from starlette.exceptions import HTTPException
from starlette.requests import Request

_MOST_FIELDS = 100


async def form_of(request: Request, most: int = 64 * 1024) -> dict[str, str]:
    """The fields of the form in the body, of at most `most` bytes, that are not empty; of several values the first.

    Raises HTTPException (400, 413).
    """
    body = b""
    async for chunk in request.stream():
        body += chunk
        if len(body) > most:
            raise HTTPException(413, f"the form may have {most:,} bytes at most")
    try:
        fields = parse_qs(body.decode("utf-8", "replace"), errors="replace", max_num_fields=_MOST_FIELDS)
    except ValueError:
        raise HTTPException(400, f"the form may have {_MOST_FIELDS} fields at most") from None
    return {name: values[0].replace("\r\n", "\n") for name, values in fields.items()}
