"""The screen of the check."""

from __future__ import annotations

from starlette.exceptions import HTTPException
from starlette.responses import RedirectResponse, Response

from .screen import Screen, Values, View


async def _values(view: View) -> Values:
    return {"check": view.check, "state": view.check.state if view.check else None}


async def _start(view: View) -> Response:
    if view.check is None:
        raise HTTPException(404, "There is no agent here, only a store: run `a2a-eval-proxy check URL`.")
    view.check.start()
    return RedirectResponse(view.link("check"), 303)


SCREEN = Screen("/check", "check.html", _values, nav="Check", fragments=("check",), action=_start)
