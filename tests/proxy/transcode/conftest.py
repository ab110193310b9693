"""One agent over gRPC, and one proxy that offers it over HTTP, for each test file."""

from __future__ import annotations

import httpx
import pytest_asyncio
from agents.grpc_agent import grpc_agent
from support.grpc_proxy import running_proxy

KEY = (("x-agent-key", "secret"),)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def agent():
    async with grpc_agent() as agent:
        yield agent


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def proxy(agent, tmp_path_factory):
    folder = tmp_path_factory.mktemp("transcode")
    async with running_proxy(f"grpc://{agent.address}", folder, transcode=True, upstream_header=KEY) as proxy:
        yield proxy


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def admin(proxy):
    async with httpx.AsyncClient(base_url=proxy.admin_url) as admin:
        yield admin
