"""Which agent a request is for: by `Host` or `:authority`, else by a path that begins with `/agents/NAME`.

The agent gets the rest of the path. A proxy with the one agent of `--upstream` needs none of this.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from h2.errors import ErrorCodes

from ..net.browser_guard import BrowserGuard, HostNames
from ..net.grpc_wire import GrpcStatus
from ..net.http2_server import Ends
from ..net.http2_streams import Headers, Http2Stream
from ..protocol.headers import public_url, read_request
from ..telemetry.counters import Metrics
from .agent_traffic import AgentTraffic
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


class AgentRoutes:
    """The agents that requests lead to: answers their requests over HTTP, and their calls over gRPC."""

    def __init__(
        self, agents: Sequence[AgentTraffic], public_url: str | None, names: HostNames, metrics: Metrics
    ) -> None:
        """`public_url`: see `ClientSettings`. `names`: those that clients may use. Requests for each agent are counted
        in `metrics`."""
        self._agents = agents
        self._public_url = public_url
        self._metrics = metrics
        self._by_name = {agent.agent.name.encode(): agent for agent in agents}
        self._by_host = {host.encode(): agent for agent in agents for host in agent.agent.hosts}
        adds_credentials = any(agent.settings.adds_credentials for agent in agents)
        self._listed = BrowserGuard(self._list, names) if adds_credentials else self._list
        self._no_agent = GrpcRefusal(GrpcStatus.NOT_FOUND, _NO_AUTHORITY)

    def _find(self, host: bytes, path: bytes) -> tuple[AgentTraffic | None, bytes]:
        """The agent of a request to this host (with a port, or without) and path, and the beginning of the path that
        leads to it."""
        if self._by_host:
            name, _, port = host.rpartition(b":")
            has_port = name and (port.isdigit() or not port)  # it may be empty (RFC 3986, 3.2.3)
            agent = self._by_host.get((name if has_port else host).lower().rstrip(b"."))
            if agent is not None:
                return agent, b""
        if not path.startswith(_BELOW_AGENTS):
            return None, b""
        name = path[len(_BELOW_AGENTS) :].partition(b"/")[0]
        return self._by_name.get(name), _BELOW_AGENTS + name

    def _count(self, agent: AgentTraffic) -> None:
        self._metrics.agent_requests[agent.agent.name] += 1

    async def requests(self, scope: Any, receive: Any, send: Any) -> None:
        """The ASGI application of all agents."""
        path = scope["raw_path"]
        agent, prefix = self._find(dict(scope["headers"]).get(b"host", b""), path)
        if agent is None and path == _AGENTS and scope["method"] in ("GET", "HEAD"):
            await self._listed(scope, receive, send)
            return
        if agent is None:
            refused = _UNKNOWN if path.startswith(_BELOW_AGENTS) else _UNNAMED
            await refused(scope, receive, send)
            return
        if prefix:
            rest, root_path = path[len(prefix) :], prefix.decode()
            scope = {**scope, "path": scope["path"][len(prefix) :], "raw_path": rest, "root_path": root_path}
        self._count(agent)
        await agent.application(scope, receive, send)

    async def _list(self, scope: Any, receive: Any, send: Any) -> None:
        """Send what the proxy knows of its agents, with their cards."""
        public = public_url(read_request(scope["headers"]), scope["scheme"], self._public_url)
        body = json.dumps({"agents": [agent.listed(public) for agent in self._agents]}, separators=(",", ":")).encode()
        headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(body))]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": b"" if scope["method"] == "HEAD" else body})

    async def calls(self, stream: Http2Stream, head: Headers, ends: Ends) -> None:
        """Answer a gRPC call for one of the agents."""
        path = dict(head.fields).get(b":path", b"")
        hosts = {value for name, value in head.fields if value and name in (b":authority", b"host")}
        if len(hosts) > 1:  # malformed: RFC 9113, section 8.3.1
            stream.reset(ErrorCodes.PROTOCOL_ERROR)
            return
        agent, prefix = self._find(hosts.pop() if hosts else b"", path)
        if agent is None or agent.calls is None:
            await self._no_agent(stream, head, ends)
            return
        if prefix:
            rest = path[len(prefix) :]
            head = head._replace(fields=[(n, rest if n == b":path" else value) for n, value in head.fields])
        self._count(agent)
        await agent.calls(stream, head, ends)
