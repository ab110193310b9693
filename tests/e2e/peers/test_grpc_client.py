"""A gRPC client that is not Python: @grpc/grpc-js, which has HTTP/2 and metadata of its own."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from a2a.types import a2a_pb2
from agents.grpc_agent import grpc_agent
from google.protobuf.descriptor import FileDescriptor
from google.protobuf.descriptor_pb2 import FileDescriptorSet
from support.grpc_proxy import running_proxy
from support.patience import PATIENCE_S
from support.provision import node_environment
from support.recordings import UUID

pytestmark = [pytest.mark.installs, pytest.mark.slow]
SCRIPT = Path(__file__).parents[1] / "clients/grpc.mjs"


def with_dependencies(file: FileDescriptor) -> list[FileDescriptor]:
    """Each file after those that it imports."""
    found: dict[str, FileDescriptor] = {}
    for imported in file.dependencies:
        found |= {one.name: one for one in with_dependencies(imported)}
    return list((found | {file.name: file}).values())


async def outcomes(modules: Path, descriptors: Path, address: str) -> Any:
    """What the client saw, without times, and ids numbered in the order they appear."""
    program = await asyncio.create_subprocess_exec(
        "node", str(SCRIPT), str(modules), str(descriptors), address, stdout=-1, stderr=-1
    )
    output, errors = await asyncio.wait_for(program.communicate(), PATIENCE_S)
    assert program.returncode == 0, errors.decode()
    ids: dict[str, str] = {}
    text = UUID.sub(lambda found: ids.setdefault(found[0], f"id{len(ids)}"), output.decode())
    return json.loads(text, object_hook=lambda found: {key: found[key] for key in found if key != "timestamp"})


async def test_a_client_of_node_sees_the_same_direct_and_proxied(tmp_path: Path) -> None:
    modules = node_environment() / "node_modules"
    descriptors = FileDescriptorSet()
    for file in with_dependencies(a2a_pb2.DESCRIPTOR):
        file.CopyToProto(descriptors.file.add())
    saved = tmp_path / "descriptors"
    saved.write_bytes(descriptors.SerializeToString())
    async with grpc_agent() as agent, running_proxy(agent.url, tmp_path) as proxy:
        direct = await outcomes(modules, saved, agent.address)
        proxied = await outcomes(modules, saved, proxy.grpc_address)
    assert proxied == direct
    assert [one["code"] for one in direct] == [0, 0, 0, 0, 1, 0, 5, 9, 0, 4, 0, 0, 9]
