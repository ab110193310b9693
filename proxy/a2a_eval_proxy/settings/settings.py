"""`Settings`: what `serve` accepts, and what must hold between the settings; an `Agent` for each agent."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import urlsplit

from a2a_tool_capture.secret_references import unset_variables

from ..errors import ConfigError
from ..feature import features
from . import parsing as types
from .options import Option, OptionGroup, Options, missing, option, options_of
from .parsing import ValueType, is_loopback, split_address
from .parts import (
    AdminPortOptions,
    AgentsOptions,
    PrivacyOptions,
    ScoringOptions,
    TlsFilesOptions,
    TlsPorts,
    TraceSettings,
    TraceUrlOption,
    TrafficSettings,
)

if TYPE_CHECKING:
    from ..features.push.settings import PushSettings as SettingsOfFeatures
else:
    SettingsOfFeatures = type("SettingsOfFeatures", tuple(one.settings for one in features() if one.settings), {})

_run = partial(option, group=OptionGroup.RUN)
_admin = partial(option, group=OptionGroup.ADMIN)


class Settings(
    SettingsOfFeatures,
    AgentsOptions,
    TraceUrlOption,
    PrivacyOptions,
    ScoringOptions,
    AdminPortOptions,
    TraceSettings,
    TrafficSettings,
):
    """The settings of `serve`. Field names are the keys of the config file; flags and variables follow.

    A room gets the part that it needs, as the class that declares it, or single values.
    """

    evaluate: bool = _run(types.SWITCH, "Score turns. Unscored turns stay pending for `worker` or `evaluate`.", True)
    admin: str = _admin(types.ADDRESS, "Address of the admin API and the metrics.", "127.0.0.1:8081")
    allow_hosts: tuple[str, ...] = _admin(
        types.NAMES, "Host names to accept in the headers Host and Origin, in addition to the proxy's own."
    )
    log_level: str = _admin(
        types.one_of("debug", "info", "warning", "error"),
        "Minimum level of messages on stderr. The line for each turn is of level info.",
        "info",
    )

    def __post_init__(self) -> None:
        if self.upstream and self.agents:
            raise ConfigError("upstream: is the only agent, and `agents` names others; leave out one")
        if not is_loopback(self.admin) and not self.admin_token:
            raise ConfigError(
                f"admin: {self.admin} is reachable from other machines; set --admin-token, or use a loopback "
                "address such as 127.0.0.1:8081"
            )
        super().__post_init__()
        self._check_ports()
        if self.upstream:
            self._check_upstream()
        elif not self.agents:
            raise missing("upstream", options_of(Settings)["upstream"])
        else:
            _ = self.each_agent  # raises ConfigError
        if self.no_content and not self.evaluate:
            raise ConfigError(
                "no_content: turns stored without content cannot be scored later; leave out --no-evaluate"
            )
        if self.otlp_forward and not self.otlp and not self.otlp_grpc:
            raise ConfigError("otlp_forward: nothing is received that could be forwarded; leave out --no-otlp")
        for receiver in (self.otlp, self.otlp_grpc):
            if receiver and self.otlp_forward and _leads_to(self.otlp_forward, receiver):
                raise ConfigError(
                    f"otlp_forward: {self.otlp_forward} is where this proxy receives traces; expected a collector's URL"
                )

    @cached_property
    def each_agent(self) -> dict[str, Agent]:
        """The agents by name; that of `upstream` has none. Raises ConfigError, which names the setting."""
        if self.upstream:
            return {"": Agent("", self)}
        agents = {name: _agent_of(self, name, own) for name, own in self.agents}
        taken: dict[str, str] = {}
        for name, agent in agents.items():
            for host in agent.hosts:
                if (other := taken.setdefault(host, name)) != name:
                    raise ConfigError(f"agents.{name}.hosts: {host} is already a host of {other}")
        return agents

    def _check_upstream(self) -> None:
        if any(address and _leads_to(self.upstream, address) for address in (self.listen, self.grpc)):
            raise ConfigError(f"upstream: {self.upstream} is where this proxy listens; expected the URL of the agent")
        self.upstream_tls.check("upstream_tls.")
        if self.upstream_tls != TlsFilesOptions() and not self.upstream_is_secure:
            raise ConfigError(f"upstream_tls: requires an agent that uses HTTPS, but upstream is {self.upstream}")
        if self.grpc_upstream and not self.grpc:
            raise ConfigError(
                f"upstream: {self.upstream} has only gRPC; set --grpc, the address for clients that speak it"
            )

    def addresses(self) -> dict[str, str | None]:
        ours = {name: getattr(self, name) for name in ("listen", "grpc", "admin", "otlp", "otlp_grpc")}
        return ours | super().addresses()

    def _check_ports(self) -> None:
        taken: dict[str, str] = {}
        for name, address in self.addresses().items():
            if address and not address.endswith(":0") and (other := taken.setdefault(address, name)) != name:
                raise ConfigError(f"{name}: {address} is already the address of {other}; choose another")
        if self.tls_client_ca and not self.tls_of("listen")[0].cert:
            raise ConfigError("tls_client_ca: clients present certificates over HTTPS only; set tls_cert and tls_key")
        for port in options_of(TlsPorts):
            own: TlsFilesOptions | None = getattr(self.tls_ports, port)
            is_open = any(address and name.startswith(port) for name, address in self.addresses().items())
            if own is not None and own.cert and not is_open:
                raise ConfigError(f"tls_ports.{port}: there is no such port; leave it out, or open it")

    @property
    def host_names(self) -> tuple[str, ...]:
        listening = (split_address(address)[0] for address in (self.listen, self.admin))
        public = urlsplit(self.public_url).hostname if self.public_url else None
        of_agents = (host for agent in self.each_agent.values() for host in agent.hosts)
        return (*self.allow_hosts, *listening, *([public] if public else []), *of_agents)


class Agent(NamedTuple):
    """One of the agents behind the proxy."""

    name: str
    """"" for the one of `upstream`."""
    settings: Settings
    hosts: tuple[str, ...] = ()
    """Names in `Host` or `:authority` of requests that are for it, in lower case."""

    @property
    def key(self) -> str:
        """What its tasks and webhooks are found by in a store."""
        return self.name or self.settings.upstream

    def owns(self, turn: Mapping[str, Any]) -> bool:
        """Whether a stored turn, in its JSON form, is one of this agent."""
        name = turn.get("agent_name")
        return name == self.name if self.name else name is None and turn["agent"] == self.settings.upstream

    @property
    def path(self) -> str:
        """What the paths of its requests begin with."""
        return f"/agents/{self.name}" if self.name else ""


def _agent_of(shared: Settings, name: str, own: Mapping[str, Any]) -> Agent:
    """The agent with these settings of its own over those of the proxy. Raises ConfigError."""
    given, hosts = own_settings(shared, name, own)
    values: dict[str, Any] = {"agents": (), "run": f"{shared.run}-{name}"}
    for key, item in options_of(Settings).items():
        if item.names_agent and getattr(shared, key):
            values[key] = f"{getattr(shared, key)}/agents/{name}"
    try:
        return Agent(name, replace(shared, **(values | given)), hosts)
    except ConfigError as error:
        raise ConfigError(f"agents.{name}.{error}") from None


_HOSTS = "hosts"
_HOST = re.compile(r"[\w.-]+|\[[0-9A-Fa-f:.]+\]", re.ASCII)


def own_settings(shared: Options, name: str, own: Mapping[str, Any]) -> tuple[dict[str, Any], tuple[str, ...]]:
    """The parsed settings of an agent, of those that `shared` has, too, and its hosts; objects are laid over those that
    are `shared`. Raises ConfigError."""
    known, read = options_of(Settings), options_of(type(shared))
    values: dict[str, Any] = {}
    hosts: tuple[str, ...] = ()
    for key, value in own.items():
        place = f"agents.{name}.{key}"
        if key == _HOSTS:
            hosts = _HOST_NAMES.parse(place, value)
        elif key not in known or not known[key].of_agent:
            raise ConfigError(f"{place}: {_not_of_agent(key, known)}")
        elif value is not None and key in read:
            if known[key].references and (unset := unset_variables(str(value))):
                raise ConfigError(f"{place}: needs the environment variable {unset[0]}, which is not set")
            values[key] = known[key].parse(place, value)
            if (parts := known[key].parts) is not None:
                for part in sorted(values[key]):
                    if not options_of(parts)[part].of_agent:
                        raise ConfigError(f"{place}.{part}: {_not_of_agent(key, known)}")
                values[key] = replace(getattr(shared, key), **values[key])
    if own.get("upstream") is None:
        raise ConfigError(f"agents.{name}.upstream is required: write the URL of the agent")
    return values, hosts


def _hosts(value: Any) -> tuple[str, ...]:
    hosts: tuple[str, ...] = types.NAMES.parse(value)
    if not all(map(_HOST.fullmatch, hosts)):
        raise ValueError("expected host names such as orders.example.com, without port")
    return tuple(host.lower().rstrip(".") for host in hosts)


_HOST_NAMES = Option(type=ValueType(_hosts, "NAME,..."), help="Names in `Host` of requests for an agent.")


def _not_of_agent(key: str, known: Mapping[str, Option]) -> str:
    from tool_call_evaluators.options import or_known  # slow to import

    if key in known:
        return "is a setting of the proxy, which all agents share; write it above `agents`"
    of_agent = [name for name, item in known.items() if item.of_agent]
    return f"unknown setting {key!r}{or_known(key, sorted({*of_agent, _HOSTS}))}"


def _leads_to(url: str, address: str) -> bool:
    """Whether a request to `url` reaches the listener on HOST:PORT; host names are compared, not resolved."""
    parts = urlsplit(url)
    host, port = split_address(address)
    if not port or port != (parts.port or (443 if parts.scheme == "https" else 80)):
        return False
    target = parts.hostname or ""
    if target == host:
        return True
    return is_loopback(f"{target}:{port}") and (is_loopback(address) or host in ("0.0.0.0", "::", "*"))  # noqa: S104  # compared with
