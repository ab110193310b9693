"""One agent over gRPC and one proxy before it for each test file."""

from __future__ import annotations

import pytest_asyncio
from agents.grpc_agent import grpc_agent
from support.grpc_proxy import running_proxy


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def agent():
    async with grpc_agent() as agent:
        yield agent


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def proxy(agent, tmp_path_factory):
    headers = (("X-Agent-Key", "secret"),)
    async with running_proxy(agent.url, tmp_path_factory.mktemp("grpc"), upstream_header=headers) as proxy:
        yield proxy
