"""Reads the bodies of requests: JSON of the API, forms of the pages."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import parse_qs

from starlette.exceptions import HTTPException
from starlette.requests import Request

_MOST_FIELDS = 100


async def json_object(request: Request, what: str, most: int) -> tuple[dict[str, Any], int]:
    """The JSON object in the body, and how many bytes it has: at most `most`. `what` names it in messages.

    Raises HTTPException (400, 413).
    """
    body = await _body(request, what, most)
    try:
        data = json.loads(body)
        if b"\\u" in body:
            json.dumps(data, ensure_ascii=False).encode()
    except UnicodeEncodeError as error:
        half = error.object[error.start]
        raise HTTPException(400, f"the body has half of a surrogate pair, {half!r}, which is no character") from None
    except (ValueError, RecursionError) as error:
        raise HTTPException(400, f"the body is not JSON: {error}") from None
    if not isinstance(data, dict):
        raise HTTPException(400, f"the body must be a JSON object: {what}")
    return data, len(body)


async def form_of(request: Request, most: int = 64 * 1024) -> dict[str, str]:
    """The fields of the form in the body, of at most `most` bytes, that are not empty; of several values the first.

    Raises HTTPException (400, 413).
    """
    body = await _body(request, "the form", most)
    try:
        fields = parse_qs(body.decode("utf-8", "replace"), errors="replace", max_num_fields=_MOST_FIELDS)
    except ValueError:
        raise HTTPException(400, f"the form may have {_MOST_FIELDS} fields at most") from None
    return {name: values[0].replace("\r\n", "\n") for name, values in fields.items()}


async def _body(request: Request, what: str, most: int) -> bytes:
    body = b""
    async for chunk in request.stream():
        body += chunk
        if len(body) > most:
            raise HTTPException(413, f"{what} may have {most} bytes at most")
    return body
