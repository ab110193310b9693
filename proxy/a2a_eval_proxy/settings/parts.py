"""The parts of `Settings`, of which commands and features share some: each declares its options, and checks them."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from a2a_tool_capture.dialect import known_dialects

from ..errors import ConfigError
from ..ids import new_run_name
from ..privacy.detectors import DETECTORS
from ..privacy.redactor import RedactionRule
from ..protocol.agent_card import WELL_KNOWN_PATHS
from . import parsing as types
from .options import OptionGroup, Options, object_option, object_type, option, options_of
from .parsing import ValueType
from .store_url import is_postgres

if TYPE_CHECKING:
    from ..privacy.policy import Privacy


DEFAULT_STORE = "a2a-eval-proxy.db"
DEFAULT_OTLP = "127.0.0.1:4318"

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
        types.COUNT,
        "Maximum size of a body or event to capture; larger ones are relayed unread.",
        32 * 1024 * 1024,
        of_agent=True,
    )
    header_bytes: int = option(types.COUNT, "Maximum size of a header block, from clients and from the agent.", 65_536)
    client_connections: int = option(
        types.COUNT,
        "Maximum number of open connections of all ports; fewer if the limit on open files requires it.",
        10_000,
    )
    agent_connections: int = option(
        types.COUNT, "Maximum number of open connections to the agent.", 10_000, of_agent=True
    )


class Timeouts(Options):
    """All in seconds."""

    connect: float = option(types.SECONDS, "Maximum time to connect to the agent.", 10.0, of_agent=True)
    response: float | None = option(
        types.SECONDS,
        "Maximum time without data from the agent, except for long polls. Default: no limit.",
        of_agent=True,
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

    cert: str | None = option(types.FILE, "Certificate chain. Reloaded when the file changes.", of_agent=True)
    key: str | None = option(types.FILE, "Private key of `cert`.", of_agent=True)
    key_password: str | None = option(types.TEXT, "Password of `key`, if encrypted.", secret=True, of_agent=True)
    ca: str | None = option(
        types.FILE, "Authorities whose certificates are accepted, instead of the system's.", of_agent=True
    )

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

    def addresses(self) -> dict[str, str | None]:
        """What is listened on: HOST:PORT by the name of its setting, which begins with that of the port in
        `tls_ports`."""
        return {}

    def tls_of(self, port: str) -> tuple[TlsFilesOptions, str]:
        """The files for a port, and how the names of their settings begin."""
        own: TlsFilesOptions | None = getattr(self.tls_ports, port)
        if own is not None:
            return own, f"tls_ports.{port}."
        return TlsFilesOptions(cert=self.tls_cert, key=self.tls_key, key_password=self.tls_key_password), "tls_"

    def __post_init__(self) -> None:
        super().__post_init__()
        for port in options_of(TlsPorts):
            files, setting = self.tls_of(port)
            files.check(setting)


class TimeoutsOption(Options):
    """How long what may take."""

    timeouts: Timeouts = object_option(
        Timeouts,
        f"Times in seconds: {', '.join(options_of(Timeouts))}.",
        group=OptionGroup.LIMITS,
        of_agent=True,
    )


class StoreOption(Options):
    """Where turns are stored."""

    store: str = _run(
        types.STORE,
        "Store for turns: a file path, sqlite:///path, or postgresql://... (requires the extra [postgres]).",
        DEFAULT_STORE,
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

    redact: tuple[RedactionRule, ...] = _privacy(
        types.REDACTION_RULES,
        f"Redact matches of these detectors before turns are stored, judged or exported: {', '.join(DETECTORS)}. "
        "Default action: mask; append :hash for the other. A config file may also have path and pattern rules.",
        of_agent=True,
    )
    redact_key: str | None = _privacy(
        replace(types.TEXT, metavar="KEY"),
        "Key for the action hash. ${VARIABLE} and ${file:PATH} are expanded.",
        secret=True,
        references=True,
        of_agent=True,
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
        types.FLAG,
        "Store only names, JSON structure and scores: no message text, no argument values.",
        of_agent=True,
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
        of_agent=True,
    )
    suite: str | None = _run(types.FILE, "Suite file with cases and evaluators, or a folder of them.", of_agent=True)


class RetentionOptions(Options):
    """Which turns are deleted."""

    retain_days: float | None = _privacy(types.DAYS, "Delete turns this long after they end. Default: never.")
    retain_mb: int | None = _privacy(
        replace(types.COUNT, metavar="MB"),
        "Delete the oldest turns when the store is larger than this. Default: never.",
    )


class AgentSettings(TimeoutsOption):
    """Who the agent is, how it is reached, and what it is asked for."""

    limits: TrafficLimits = object_option(
        TrafficLimits,
        f"Limits: {', '.join(options_of(TrafficLimits))}.",
        group=OptionGroup.LIMITS,
        of_agent=True,
    )
    upstream: str = _agent(
        types.UPSTREAM,
        "URL of the agent; grpc://HOST:PORT or grpcs://HOST:PORT for one that has only gRPC.",
        "",
        of_agent=True,
    )
    grpc: str | None = _agent(types.ADDRESS, "Address to listen on for clients that speak gRPC.")
    card_path: str | None = _agent(types.URL_PATH, "Path of the agent card, if not under /.well-known/.", of_agent=True)
    negotiate: str = _agent(
        types.one_of("declared", "always", "never"),
        "When to request tool calls from the agent: if its card declares the extension, always, or never.",
        "declared",
        of_agent=True,
    )
    require_artifact_uri: bool = _agent(
        types.SWITCH,
        "Ignore tool calls in artifacts that do not list the extension's URI.",
        True,
        of_agent=True,
    )
    dialects: tuple[str, ...] = _agent(
        types.DIALECT_NAMES,
        f"Also read framework-specific tool-call formats: {', '.join(known_dialects())}.",
        of_agent=True,
    )
    upstream_tls: TlsFilesOptions = object_option(
        TlsFilesOptions,
        "PEM files for TLS with the agent: ca (authorities to trust, instead of the system's), cert and key "
        "to present to it, key_password.",
        group=OptionGroup.TLS,
        secret=True,
        of_agent=True,
    )
    upstream_header: tuple[tuple[str, str], ...] = _tls(
        types.UPSTREAM_HEADERS,
        "Header to send to the agent, replacing the client's. ${VARIABLE} and ${file:PATH} are expanded. Repeatable.",
        secret=True,
        references=True,
        repeatable=True,
        of_agent=True,
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
        types.SWITCH,
        "Wait for traces of every turn, even if the agent has not sent any yet.",
        of_agent=True,
    )
    trace_wait: float = _traces(
        types.SECONDS, "Time to wait for the agent's spans after a turn ends.", 6.0, of_agent=True
    )
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

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.metrics_token and not self.admin_token:
            raise ConfigError("metrics_token: without admin_token, everybody may read the metrics; set both")
        if self.metrics_token and self.metrics_token == self.admin_token:
            raise ConfigError("metrics_token: is the admin_token, which may change cases; choose another")


class ClientSettings(TlsOptions):
    """Where clients connect, and within which limits."""

    listen: str = _agent(types.ADDRESS, "Address to listen on for clients.", "127.0.0.1:8080")
    public_url: str | None = _agent(
        types.URL,
        "URL at which clients reach the proxy. Default: derived from each request.",
        names_agent=True,
        of_agent=True,
    )
    tls_client_ca: str | None = _tls(types.FILE, "Accept only clients with a certificate from these authorities (PEM).")


class TrafficSettings(StoreOption, RetentionOptions, ClientSettings, AgentSettings):
    """What a process needs that serves clients: these parts, and values that hold for all its traffic."""

    run: str = _run(
        types.NAME,
        "Name of the run. Default: serve- and the current time.",
        lambda: new_run_name("serve"),
        of_agent=True,
    )
    turn_timeout: float = _limit(
        types.SECONDS,
        "Time without activity after which a turn is closed as incomplete, even if its request is still open.",
        300.0,
        of_agent=True,
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
