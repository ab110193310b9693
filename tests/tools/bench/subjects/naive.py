"""The proxy most people would write first: Starlette routes, StreamingResponse and an httpx client as it comes.

Run as `python naive.py PORT UPSTREAM_URL`. A baseline only: it captures nothing.
"""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import httpx
import uvicorn
from starlette.applications import Starlette
from starlette.background import BackgroundTask
from starlette.requests import Request
from starlette.responses import StreamingResponse
from starlette.routing import Route

HOP_BY_HOP = {"connection", "keep-alive", "te", "trailer", "transfer-encoding", "upgrade"}  # RFC 9110, section 7.6.1


def naive_proxy(upstream: str) -> Starlette:
    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        async with httpx.AsyncClient(base_url=upstream) as client:
            app.state.client = client
            yield

    async def forward(request: Request) -> StreamingResponse:
        client: httpx.AsyncClient = request.app.state.client
        headers = [(name, value) for name, value in request.headers.items() if name not in HOP_BY_HOP]
        outgoing = client.build_request(
            request.method,
            httpx.URL(path=request.url.path, query=request.url.query.encode()),
            headers=headers,
            content=await request.body(),
        )
        answer = await client.send(outgoing, stream=True)
        return StreamingResponse(
            answer.aiter_raw(),
            status_code=answer.status_code,
            headers={name: value for name, value in answer.headers.items() if name not in HOP_BY_HOP},
            background=BackgroundTask(answer.aclose),
        )

    return Starlette(routes=[Route("/{path:path}", forward, methods=["GET", "POST"])], lifespan=lifespan)


if __name__ == "__main__":
    uvicorn.run(naive_proxy(sys.argv[2]), host="127.0.0.1", port=int(sys.argv[1]), log_level="error", access_log=False)
