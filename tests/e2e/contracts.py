"""What the fixtures of conftest.py hand out."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from support.proxy import Proxy

GetAgent = Callable[[str], str]
"""URL of the test agent of that name: `v1`, `v1-ungated`, `v1-undeclared`, `v1-grpc`, `v0.3`, `v0.3-gated-reads`,
`adk`."""


class Client(Protocol):
    """A real client behind its driver: takes the fields of a job, returns the answer (see clients/README.md)."""

    def __call__(self, **job: Any) -> dict[str, Any]: ...


GetClient = Callable[[str], Client]
"""The client of that name: `python-1`, `python-0.3`, `javascript-1`."""


class GetProxy(Protocol):
    """A proxy before `upstream` with these further arguments; tests that want the same share it."""

    def __call__(self, upstream: str, *arguments: str) -> Proxy: ...
