"""Which agent a request is for: by `Host` or `:authority`, else by a path that begins with `/agents/NAME`.

The agent gets the rest of the path. A proxy with the one agent of `--upstream` needs none of this.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, NamedTuple

from h2.errors import ErrorCodes

from ..net.browser_guard import BrowserGuard, HostNames
from ..net.grpc_wire import GrpcStatus
from ..net.http2_server import Ends, StreamHandler
from ..net.http2_streams import Headers, Http2Stream
from ..net.server_exchange import Application
from ..protocol.headers import public_url, read_request
from ..telemetry.counters import Metrics
from .agent_relay import AgentRelay
from .refusals import GrpcRefusal, HttpRefusal

_AGENTS, _BELOW_AGENTS = b"/agents", b"/agents/"

_UNKNOWN = HttpRefusal(
    404, "AGENT_NOT_FOUND", lambda: "no agent of this proxy has this name; GET /agents lists those there are"
)
_UNNAMED = HttpRefusal(
    404,
    "AGENT_NOT_FOUND",
    lambda: "several agents are behind this proxy, each at /agents/NAME; GET /agents lists them",
)
_NO_AUTHORITY = (
    "several agents are behind this proxy: call one by the authority that `hosts` in its settings names, or with "
    "/agents/NAME before the path"
)


class AgentRoute(NamedTuple):
    """An agent, and what answers its requests."""

    relay: AgentRelay
    application: Application
    calls: StreamHandler | None
    """None where no gRPC is relayed."""


class AgentRoutes:
    """The agents that requests lead to."""

    def __init__(self, routes: Sequence[AgentRoute], metrics: Metrics) -> None:
        """Requests for each agent are counted in `metrics`."""
        self.all = routes
        self._metrics = metrics
        self._by_name = {route.relay.agent.name.encode(): route for route in routes}
        self._by_host = {host.encode(): route for route in routes for host in route.relay.agent.hosts}

    def find(self, host: bytes, path: bytes) -> tuple[AgentRoute | None, bytes]:
        """The agent of a request to this host (with a port, or without) and path, and the beginning of the path that
        leads to it."""
        if self._by_host:
            name, _, port = host.rpartition(b":")
            has_port = name and (port.isdigit() or not port)  # it may be empty (RFC 3986, 3.2.3)
            route = self._by_host.get((name if has_port else host).lower().rstrip(b"."))
            if route is not None:
                return route, b""
        if not path.startswith(_BELOW_AGENTS):
            return None, b""
        name = path[len(_BELOW_AGENTS) :].partition(b"/")[0]
        return self._by_name.get(name), _BELOW_AGENTS + name

    def count(self, route: AgentRoute) -> None:
        """Count a request for the agent."""
        self._metrics.agent_requests[route.relay.agent.name] += 1


class RoutedRequests:
    """The ASGI application of several agents."""

    def __init__(self, routes: AgentRoutes, public_url: str | None, names: HostNames) -> None:
        """`public_url`: see `ClientSettings`. `names`: those that clients may use."""
        self._routes = routes
        self._public_url = public_url
        self._guarded_list = BrowserGuard(self._list, names)

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        path = scope["raw_path"]
        route, prefix = self._routes.find(dict(scope["headers"]).get(b"host", b""), path)
        if route is None and path == _AGENTS and scope["method"] in ("GET", "HEAD"):
            adds_credentials = any(route.relay.settings.adds_credentials for route in self._routes.all)
            await (self._guarded_list if adds_credentials else self._list)(scope, receive, send)
            return
        if route is None:
            refused = _UNKNOWN if path.startswith(_BELOW_AGENTS) else _UNNAMED
            await refused(scope, receive, send)
            return
        if prefix:
            rest, root_path = path[len(prefix) :], prefix.decode()
            scope = {**scope, "path": scope["path"][len(prefix) :], "raw_path": rest, "root_path": root_path}
        self._routes.count(route)
        await route.application(scope, receive, send)

    async def _list(self, scope: Any, receive: Any, send: Any) -> None:
        """Send what the proxy knows of its agents, with their cards."""
        public = public_url(read_request(scope["headers"]), scope["scheme"], self._public_url)
        agents = [route.relay.listed(public) for route in self._routes.all]
        body = json.dumps({"agents": agents}, separators=(",", ":")).encode()
        headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(body))]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": b"" if scope["method"] == "HEAD" else body})


class RoutedCalls:
    """Answers the gRPC calls for several agents."""

    def __init__(self, routes: AgentRoutes) -> None:
        self._routes = routes
        self._refusal = GrpcRefusal(GrpcStatus.NOT_FOUND, _NO_AUTHORITY)

    async def __call__(self, stream: Http2Stream, head: Headers, ends: Ends) -> None:
        path = dict(head.fields).get(b":path", b"")
        hosts = {value for name, value in head.fields if value and name in (b":authority", b"host")}
        if len(hosts) > 1:  # malformed: RFC 9113, section 8.3.1
            stream.reset(ErrorCodes.PROTOCOL_ERROR)
            return
        route, prefix = self._routes.find(hosts.pop() if hosts else b"", path)
        if route is None or route.calls is None:
            await self._refusal(stream, head, ends)
            return
        if prefix:
            rest = path[len(prefix) :]
            head = head._replace(fields=[(n, rest if n == b":path" else value) for n, value in head.fields])
        self._routes.count(route)
        await route.calls(stream, head, ends)
