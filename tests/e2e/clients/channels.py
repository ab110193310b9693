"""The gRPC channels of a Python driver, and the errors of calls as JSON."""

from __future__ import annotations

from typing import Any, Self

import grpc.aio


class Channels:
    """One channel for each address, for the length of a job: closed when it ends."""

    def __init__(self) -> None:
        self._opened: dict[str, grpc.aio.Channel] = {}

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        for channel in self._opened.values():
            await channel.close()

    def to(self, address: str) -> grpc.aio.Channel:
        """The channel to HOST:PORT."""
        if address not in self._opened:
            self._opened[address] = grpc.aio.insecure_channel(address)
        return self._opened[address]


def described(error: Exception) -> dict[str, Any]:
    """What a client can learn from an error: of a gRPC call its status, message and trailing metadata."""
    if not isinstance(error, grpc.aio.AioRpcError):
        return {"error": type(error).__name__, "message": str(error), "data": getattr(error, "data", None)}
    trailing = [[key, value if isinstance(value, str) else value.hex()] for key, value in error.trailing_metadata()]
    return {"code": error.code().name, "details": error.details(), "trailing": sorted(trailing)}
