"""Reads the JSON bodies of requests."""

from __future__ import annotations

import json
from typing import Any

from starlette.exceptions import HTTPException
from starlette.requests import Request


async def json_object(request: Request, what: str, most: int) -> tuple[dict[str, Any], int]:
    """The JSON object in the body, and how many bytes it has: at most `most`. `what` names it in messages.

    Raises HTTPException (400, 413).
    """
    body = b""
    async for chunk in request.stream():
        body += chunk
        if len(body) > most:
            raise HTTPException(413, f"{what} may have {most} bytes at most")
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
