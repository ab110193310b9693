"""`Settings`: what `serve` accepts, and what must hold between the settings. `WorkerOptions`: those of `worker`."""

from __future__ import annotations

import re
from collections.abc import Collection, Hashable, Mapping
from dataclasses import replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import urlsplit

from a2a_tool_capture.dialect import known_dialects
from a2a_tool_capture.secret_references import unset_variables

from ..errors import ConfigError
from ..ids import new_run_name
from ..privacy.detectors import DETECTORS
from ..privacy.redactor import Rule
from ..protocol.agent_card import WELL_KNOWN_PATHS
from . import parsing as types
from .options import Option, OptionGroup, Options, missing, object_option, object_type, option, options_of
from .parsing import ValueType, is_loopback, split_address
from .store_url import is_postgres

if TYPE_CHECKING:
    from ..privacy.policy import Privacy


DEFAULT_STORE = "a2a-eval-proxy.db"
DEFAULT_OTLP = "127.0.0.1:4318"
DEFAULT_PUSH_LISTEN = "127.0.0.1:8083"

_agent = partial(option, group=OptionGroup.AGENT)
_run = partial(option, group=OptionGroup.RUN)
_traces = partial(option, group=OptionGroup.TRACES)
_admin = partial(option, group=OptionGroup.ADMIN)
_tls = partial(option, group=OptionGroup.TLS)
_privacy = partial(option, group=OptionGroup.PRIVACY)
_limit = partial(option, group=OptionGroup.LIMITS)


class TrafficLimits(Options):
    """Numbers beyond which nothing is taken, or is relayed unread."""

    body_bytes: int = option(
        types.COUNT, "Maximum size of a body or event to capture; larger ones are relayed unread.", 32 * 1024 * 1024
    )
    header_bytes: int = option(types.COUNT, "Maximum size of a header block, from clients and from the agent.", 65_536)
    client_connections: int = option(
        types.COUNT,
        "Maximum number of open connections of all ports; fewer if the limit on open files requires it.",
        10_000,
    )
    agent_connections: int = option(types.COUNT, "Maximum number of open connections to the agent.", 10_000)


class Timeouts(Options):
    """All in seconds."""

    connect: float = option(types.SECONDS, "Maximum time to connect to the agent.", 10.0)
    response: float | None = option(
        types.SECONDS, "Maximum time without data from the agent, except for long polls. Default: no limit."
    )
    client_header: float = option(types.SECONDS, "Maximum time for a client to send the header of a request.", 60.0)
    client_body: float = option(
        types.SECONDS, "Maximum time without data from a client that is sending a request body.", 60.0
    )
    client_send: float = option(
        types.SECONDS, "Maximum time for which a client may read nothing of a response that is ready.", 60.0
    )
    drain: float = option(
        types.SECONDS_OR_0, "Time after SIGTERM to keep accepting requests, while /readyz returns 503.", 0.0
    )
    shutdown: float = option(
        types.SECONDS_OR_0,
        "Maximum time after `drain` to finish open responses, and again to score turns; of a worker, to finish jobs.",
        20.0,
    )


class TlsFilesOptions(Options):
    """A certificate of ours, and whom we trust, in PEM files."""

    cert: str | None = option(types.FILE, "Certificate chain. Reloaded when the file changes.")
    key: str | None = option(types.FILE, "Private key of `cert`.")
    key_password: str | None = option(types.TEXT, "Password of `key`, if encrypted.", secret=True)
    ca: str | None = option(types.FILE, "Authorities whose certificates are accepted, instead of the system's.")

    def check(self, setting: str) -> None:
        """Raises ConfigError if only one of certificate and key is given."""
        if bool(self.cert) != bool(self.key):
            given, missing = ("cert", "key") if self.cert else ("key", "cert")
            raise ConfigError(f"{setting}{given}: requires {setting}{missing} (the same file, if it contains both)")


def _of_port(value: Any) -> TlsFilesOptions:
    """Raises ValueError."""
    if value in (False, "off"):
        return TlsFilesOptions()
    if isinstance(value, str):
        return TlsFilesOptions(cert=value, key=value)
    found = TlsFilesOptions(**_FILES.parse(value))
    if not found.cert:
        raise ValueError("expected off, a PEM file with certificate and key, or a mapping with cert and key")
    return found


_FILES = object_type(TlsFilesOptions)
_of_a_port = partial(option, ValueType(_of_port, "off|FILE"))


class TlsPorts(Options):
    """Ports with another certificate than the others, or (off) in plain text."""

    listen: TlsFilesOptions | None = _of_a_port(help="For clients on --listen and --grpc.")
    admin: TlsFilesOptions | None = _of_a_port(help="For operators on --admin.")
    otlp: TlsFilesOptions | None = _of_a_port(help="For traces on --otlp and --otlp-grpc.")
    push: TlsFilesOptions | None = _of_a_port(help="For notifications on --push-listen.")


class TlsOptions(Options):
    """The certificate of all ports, unless one has its own."""

    tls_cert: str | None = _tls(
        types.FILE, "Certificate chain (PEM) for TLS on all ports. Reloaded when the file changes."
    )
    tls_key: str | None = _tls(types.FILE, "Private key (PEM) of --tls-cert.")
    tls_key_password: str | None = _tls(types.TEXT, "Password of --tls-key, if encrypted.", secret=True)
    tls_ports: TlsPorts = object_option(
        TlsPorts,
        "TLS of listen, admin, otlp or push that is not that of --tls-cert: off, or a PEM file with certificate and "
        "key; in a config file also a mapping with cert, key, key_password and ca.",
        group=OptionGroup.TLS,
        secret=True,
    )

    def tls_of(self, port: str) -> tuple[TlsFilesOptions, str]:
        """The files for a port, and how the names of their settings begin."""
        own: TlsFilesOptions | None = getattr(self.tls_ports, port)
        if own is not None:
            return own, f"tls_ports.{port}."
        return TlsFilesOptions(cert=self.tls_cert, key=self.tls_key, key_password=self.tls_key_password), "tls_"

    def check_tls(self) -> None:
        """Raises ConfigError."""
        for port in options_of(TlsPorts):
            files, setting = self.tls_of(port)
            files.check(setting)


class LimitsOption(Options):
    """What may be open, and for how long."""

    limits: TrafficLimits = object_option(
        TrafficLimits, f"Limits: {', '.join(options_of(TrafficLimits))}.", group=OptionGroup.LIMITS
    )


class TimeoutsOption(Options):
    """How long what may take."""

    timeouts: Timeouts = object_option(
        Timeouts, f"Times in seconds: {', '.join(options_of(Timeouts))}.", group=OptionGroup.LIMITS
    )


class StoreOption(Options):
    """Where turns are stored."""

    store: str = _run(
        types.STORE,
        "Store for turns: a file path, sqlite:///path, or postgresql://... (requires the extra [postgres]).",
        DEFAULT_STORE,
    )


class AuditOption(Options):
    """Where changes are logged."""

    audit_log: str | None = _admin(
        types.FILE,
        "File for a line about each change and login: who, what, from where; beyond 10 MB it becomes FILE.1. Default: "
        "the log for what comes over --admin, none for commands.",
    )


class PluginOption(Options):
    """Which code a suite may load."""

    allow_plugins: bool = _run(types.SWITCH, "Let the suite load plug-ins from outside its directory.")


class TraceUrlOption(Options):
    """Where people see traces."""

    trace_url: str | None = _traces(
        types.TRACE_URL,
        "Address of a trace in your tracing tool, such as http://jaeger:16686/trace/{trace_id}: the trace ids of turns "
        "become links to it.",
    )


class RedactionOptions(Options):
    """What is redacted."""

    redact: tuple[Rule, ...] = _privacy(
        types.REDACTION_RULES,
        f"Redact matches of these detectors before turns are stored, judged or exported: {', '.join(DETECTORS)}. "
        "Default action: mask; append :hash or :drop for another. A config file may also have path and pattern rules.",
    )
    redact_key: str | None = _privacy(
        replace(types.TEXT, metavar="KEY"),
        "Key for the action hash. ${VARIABLE} and ${file:PATH} are expanded.",
        secret=True,
        references=True,
    )

    @property
    def privacy_key(self) -> Hashable:
        """Equal for equal rules."""
        return self.redact, self.redact_key

    def privacy(self, *, no_content: bool = False) -> Privacy:
        """See `privacy_of`. Raises ConfigError."""
        from ..privacy.policy import privacy_of  # it reads suites, which not every command does

        return privacy_of(self.redact, self.redact_key, no_content=no_content)


class PrivacyOptions(RedactionOptions):
    """What is redacted, and what is not stored."""

    no_content: bool = _privacy(
        types.FLAG, "Store only names, JSON structure and scores: no message text, no argument values."
    )

    @property
    def privacy_key(self) -> Hashable:
        return super().privacy_key, self.no_content

    def privacy(self, *, no_content: bool = False) -> Privacy:
        return super().privacy(no_content=no_content or self.no_content)


class ScoringOptions(PluginOption, RedactionOptions):
    """By what turns are scored."""

    judge_budget: types.Rate | None = _run(
        types.RATE,
        "Maximum number of requests to judges for each agent, such as 20/min, 500/h or 5000/d. Beyond it, results that "
        "need a judge are skipped. Default: no limit.",
    )
    suite: str | None = _run(types.FILE, "Suite file with cases and evaluators, or a folder of them.")


class RetentionOptions(Options):
    """Which turns are deleted."""

    retain_days: float | None = _privacy(types.DAYS, "Delete turns this long after they end. Default: never.")
    retain_mb: int | None = _privacy(
        replace(types.COUNT, metavar="MB"),
        "Delete the oldest turns when the store, or what an agent has in it, is larger than this. Default: never.",
    )


class AgentSettings(LimitsOption, TimeoutsOption):
    """Who the agent is, how it is reached, and what it is asked for."""

    upstream: str = _agent(
        types.UPSTREAM,
        "URL of the agent; grpc://HOST:PORT or grpcs://HOST:PORT for one that has only gRPC.",
        "",
    )
    grpc: str | None = _agent(types.ADDRESS, "Address to listen on for clients that speak gRPC.")
    card_path: str | None = _agent(types.URL_PATH, "Path of the agent card, if not under /.well-known/.")
    negotiate: str = _agent(
        types.one_of("declared", "always", "never"),
        "When to request tool calls from the agent: if its card declares the extension, always, or never.",
        "declared",
    )
    require_artifact_uri: bool = _agent(
        types.SWITCH, "Ignore tool calls in artifacts that do not list the extension's URI.", True
    )
    dialects: tuple[str, ...] = _agent(
        types.DIALECT_NAMES, f"Also read framework-specific tool-call formats: {', '.join(known_dialects())}."
    )
    upstream_tls: TlsFilesOptions = object_option(
        TlsFilesOptions,
        "PEM files for TLS with the agent: ca (authorities to trust, instead of the system's), cert and key "
        "to present to it, key_password.",
        group=OptionGroup.TLS,
        secret=True,
    )
    upstream_header: tuple[tuple[str, str], ...] = _tls(
        types.UPSTREAM_HEADERS,
        "Header to send to the agent, replacing the client's. ${VARIABLE} and ${file:PATH} are expanded. Repeatable.",
        secret=True,
        references=True,
        repeatable=True,
    )

    @property
    def upstream_is_secure(self) -> bool:
        return self.upstream.startswith(("https:", "grpcs:"))

    @property
    def grpc_upstream(self) -> str | None:
        """HOST:PORT of an agent that has only gRPC; None for any other."""
        scheme, _, address = self.upstream.partition("://")
        return address if scheme in ("grpc", "grpcs") else None

    @property
    def adds_credentials(self) -> bool:
        """Whether the proxy adds credentials of its own to requests for the agent."""
        return bool(self.upstream_header or self.upstream_tls.cert)

    @property
    def card_paths(self) -> tuple[str, ...]:
        """Paths to try for the agent card, in order."""
        return (self.card_path,) if self.card_path else tuple(sorted(WELL_KNOWN_PATHS))

    def is_card_path(self, path: str) -> bool:
        """Whether a request for `path` is for an agent card: `card_path`, or a well-known one below any path.

        An upstream may serve several agents; a card that is not rewritten leads clients past the proxy.
        """
        return path == self.card_path or path.endswith(tuple(WELL_KNOWN_PATHS))


class PushSettings(TlsOptions):
    """What happens to webhooks."""

    push: str | None = _agent(
        types.one_of("relay", "pass", "refuse"),
        "What to do with the webhooks that clients register: relay the agent's notifications, let them pass the proxy, "
        "or refuse webhooks. Default: relay with --push-url, else pass.",
    )
    push_url: str | None = _agent(
        types.URL, "URL at which the agent reaches --push-listen; it is given to the agent for webhooks."
    )
    push_listen: str = _agent(types.ADDRESS, "Address to receive the agent's notifications on.", DEFAULT_PUSH_LISTEN)
    push_allow: tuple[str, ...] = _agent(
        types.WEBHOOK_TARGETS,
        "Targets of webhooks that clients may register: public (any public address), host names (*.example.com: those "
        "below it), addresses, networks. Default: public.",
    )

    @cached_property
    def push_mode(self) -> str:
        """`relay`, `pass` or `refuse`."""
        return self.push or ("relay" if self.push_url else "pass")


class TraceSettings(TlsOptions):
    """Where traces are received, and how long a turn waits for them."""

    otlp: str | None = _traces(
        types.ADDRESS_OR_OFF,
        "Address to receive OpenTelemetry traces on (OTLP/HTTP).",
        DEFAULT_OTLP,
        no_flag="Do not receive OpenTelemetry traces over HTTP.",
    )
    otlp_grpc: str | None = _traces(types.ADDRESS, "Address to receive OpenTelemetry traces on over gRPC.")
    otlp_forward: str | None = _traces(types.URL, "URL of a collector to forward all received telemetry to.")
    otlp_forward_headers: tuple[tuple[str, str], ...] = _traces(
        types.HEADER_PAIRS, "Headers for that collector. ${VARIABLE} is expanded.", secret=True, references=True
    )
    expect_traces: bool = _traces(
        types.SWITCH, "Wait for traces of every turn, even if the agent has not sent any yet."
    )
    trace_wait: float = _traces(types.SECONDS, "Time to wait for the agent's spans after a turn ends.", 6.0)
    conversation_attributes: tuple[str, ...] = _traces(
        types.NAMES, "Span attributes that hold the A2A contextId, in addition to the standard ones."
    )


_token = partial(_admin, types.TOKEN, secret=True, references=True)


class AdminPortOptions(TlsOptions):
    """Who may use the admin port of a proxy or a worker, and its certificate."""

    admin_token: str | None = _token(
        help="Bearer token of the admin port, of 16 characters or more. Required unless its address is on loopback. "
        "${VARIABLE} and ${file:PATH} are expanded."
    )
    metrics_token: str | None = _token(help="Bearer token that may read /metrics and nothing else.")

    def check_admin(self) -> None:
        """Raises ConfigError."""
        self.check_tls()
        if self.metrics_token and not self.admin_token:
            raise ConfigError("metrics_token: without admin_token, everybody may read the metrics; set both")
        if self.metrics_token and self.metrics_token == self.admin_token:
            raise ConfigError("metrics_token: is the admin_token, which may change cases; choose another")


class ClientSettings(TlsOptions):
    """Where clients connect, and within which limits."""

    listen: str = _agent(types.ADDRESS, "Address to listen on for clients.", "127.0.0.1:8080")
    public_url: str | None = _agent(
        types.URL, "URL at which clients reach the proxy. Default: derived from each request."
    )
    tls_client_ca: str | None = _tls(types.FILE, "Accept only clients with a certificate from these authorities (PEM).")


class TrafficSettings(StoreOption, RetentionOptions, PushSettings, ClientSettings, AgentSettings):
    """What a process needs that serves clients: these parts, and values that hold for all its traffic."""

    run: str = _run(types.NAME, "Name of the run. Default: serve- and the current time.", lambda: new_run_name("serve"))
    turn_timeout: float = _limit(
        types.SECONDS,
        "Time without activity after which a turn is closed as incomplete, even if its request is still open.",
        300.0,
    )

    @property
    def names_turns(self) -> bool:
        """Whether every message to an agent names its turn in `tracestate`: proxies with the same store may see what
        the agent asks of others."""
        return is_postgres(self.store)


class AgentsOptions(Options):
    """Which agents are behind the proxy, where there are several."""

    agents: tuple[tuple[str, Mapping[str, Any]], ...] = _agent(
        types.AGENTS,
        "Several agents in place of --upstream, each at /agents/NAME. A config file may give each settings of its own.",
        secret=True,
    )


class Settings(
    AgentsOptions,
    AuditOption,
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
        self.check_admin()
        self._check_addresses()
        self._check_tls()
        self._check_push()
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
        agents = {name: agent_of(self, name, own) for name, own in self.agents}
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

    def _check_addresses(self) -> None:
        taken: dict[str, str] = {}
        push = ["push_listen"] if self.push_mode == "relay" else []
        for name in ("listen", "grpc", "admin", "otlp", "otlp_grpc", *push):
            address = getattr(self, name)
            if address and not address.endswith(":0") and (other := taken.setdefault(address, name)) != name:
                raise ConfigError(f"{name}: {address} is already the address of {other}; choose another")

    def _check_tls(self) -> None:
        if self.tls_client_ca and not self.tls_of("listen")[0].cert:
            raise ConfigError("tls_client_ca: clients present certificates over HTTPS only; set tls_cert and tls_key")
        for port, address in (("otlp", self.otlp or self.otlp_grpc), ("push", self.push_url)):
            own: TlsFilesOptions | None = getattr(self.tls_ports, port)
            if own is not None and own.cert and not address:
                raise ConfigError(f"tls_ports.{port}: there is no such port; leave it out, or open it")

    def _check_push(self) -> None:
        if self.push == "relay" and not self.push_url:
            raise ConfigError("push: relay requires push_url, the URL at which the agent reaches push_listen")
        if self.push == "refuse" and self.push_url:
            raise ConfigError("push: refuse allows no webhooks, and push_url relays them; leave out one of them")
        if self.push_listen != DEFAULT_PUSH_LISTEN and not self.push_url:
            raise ConfigError(
                f"push_listen: nothing is received on {self.push_listen} without push_url, the URL at which the agent "
                "reaches it"
            )
        own = self.tls_ports.push
        if own is not None and own.cert and not (self.push_url or "").startswith("https://"):
            raise ConfigError(f"tls_ports.push: requires a push_url that begins with https://, got {self.push_url}")

    def tls_of(self, port: str) -> tuple[TlsFilesOptions, str]:
        """Notifications to an address with http:// come in plain text."""
        if port == "push" and not (self.push_url or "").startswith("https://"):
            return TlsFilesOptions(), ""
        return super().tls_of(port)

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


def agent_of(shared: Settings, name: str, own: Mapping[str, Any]) -> Agent:
    """The agent with these settings of its own over those of the proxy. Raises ConfigError."""
    given, hosts = own_settings(name, own, options_of(Settings), shared)
    values: dict[str, Any] = {"agents": (), "run": f"{shared.run}-{name}"}
    values["retain_mb"] = None  # the proxy's is that of the whole store
    for url in ("public_url", "push_url"):
        if getattr(shared, url):
            values[url] = f"{getattr(shared, url)}/agents/{name}"
    try:
        return Agent(name, replace(shared, **(values | given)), hosts)
    except ConfigError as error:
        raise ConfigError(f"agents.{name}.{error}") from None


OWN = frozenset(
    {
        *("upstream", "card_path", "negotiate", "require_artifact_uri", "dialects"),
        *("upstream_tls", "upstream_header", "limits", "timeouts", "turn_timeout", "public_url"),
        *("push", "push_allow", "redact", "redact_key", "no_content", "run", "suite"),
        *("judge_budget", "trace_wait", "expect_traces", "retain_days", "retain_mb"),
    }
)
"""The settings that an agent may have of its own; the others are those of the ports, the store and the processes."""

_OWN_PARTS = {"limits": {"body_bytes", "agent_connections"}, "timeouts": {"connect", "response"}}
"""Of objects, what an agent may have of its own, where that is not all."""

_HOSTS = "hosts"
_HOST = re.compile(r"[\w.-]+|\[[0-9A-Fa-f:.]+\]", re.ASCII)


def own_settings(
    name: str, own: Mapping[str, Any], options: Mapping[str, Option], shared: Options, read: Collection[str] = OWN
) -> tuple[dict[str, Any], tuple[str, ...]]:
    """The parsed settings of an agent, of those that are `options` of the proxy and to be `read`, and its hosts;
    objects are laid over those that are `shared`. Raises ConfigError."""
    values: dict[str, Any] = {}
    hosts: tuple[str, ...] = ()
    for key, value in own.items():
        place = f"agents.{name}.{key}"
        if key == _HOSTS:
            hosts = _HOST_NAMES.parse(place, value)
        elif key not in OWN:
            raise ConfigError(f"{place}: {_unknown(key, key in options)}")
        elif value is not None and key in read:
            if options[key].references and (unset := unset_variables(str(value))):
                raise ConfigError(f"{place}: needs the environment variable {unset[0]}, which is not set")
            values[key] = options[key].parse(place, value)
            if options[key].parts is not None:
                if others := values[key].keys() - _OWN_PARTS.get(key, values[key].keys()):
                    raise ConfigError(f"{place}.{min(others)}: {_unknown(key, True)}")
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


def _unknown(key: str, of_proxy: bool) -> str:
    from tool_call_evaluators.options import or_known  # slow to import

    if of_proxy:
        return "is a setting of the proxy, which all agents share; write it above `agents`"
    return f"unknown setting {key!r}{or_known(key, sorted({*OWN, _HOSTS}))}"


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
