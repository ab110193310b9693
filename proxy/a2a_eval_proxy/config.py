"""Settings: frozen, read once from flags, environment and a YAML file, in that order of precedence."""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from ipaddress import ip_address
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import yaml
from a2a_tool_capture.dialects import DIALECTS

from .card import WELL_KNOWN_PATHS
from .detectors import DETECTORS
from .errors import ConfigError
from .headers import NOT_TO_SET
from .location import shown
from .redaction import Rule
from .redactionrules import parse_rules

ENV_PREFIX = "A2A_EVAL_PROXY_"
NEGOTIATE_MODES = ("declared", "always", "never")
_HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+", re.ASCII)
"""RFC 9110, section 5.6.2."""
DEFAULT_MAX_HEADER_BYTES = 65_536
DEFAULT_STORE = "a2a-eval-proxy.db"
DEFAULT_OTLP = "127.0.0.1:4318"
LOG_LEVELS = ("debug", "info", "warning", "error")


# ── parsers: text (or a YAML scalar) to value; they raise ValueError with what is accepted ──────────────────────


def _text(value: Any) -> str:
    if not isinstance(value, str) or not value.strip():
        raise ValueError("expected a non-empty text")
    return value.strip()


def parse_url(value: Any) -> str:
    """An http or https URL without query, and without slash at its end. Raises ValueError with what is accepted.

    Nor with a user name: URLs are logged, stored and told to clients.
    """
    text = _text(value)
    try:
        parts = urlsplit(text)
        valid = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        valid = False
    if not valid or "?" in text or "#" in text or any(char.isspace() for char in text):
        raise ValueError("expected a URL such as http://127.0.0.1:9999, without query")
    if "@" in parts.netloc:
        raise ValueError("expected a URL without user name and password (they go into a header)")
    return text.rstrip("/")


def parse_address(value: Any) -> str:
    """HOST:PORT as it was given. Raises ValueError."""
    host, _, port = _text(value).rpartition(":")
    if not host or not port.isascii() or not port.isdigit() or int(port) > 65535:
        raise ValueError("expected HOST:PORT such as 127.0.0.1:8080 (port 0: any free one)")
    return _text(value)


def _path(value: Any) -> str:
    text = _text(value)
    if not text.startswith("/"):
        raise ValueError("expected a path that begins with /")
    return text


def _one_of(accepted: tuple[str, ...]) -> Callable[[Any], str]:
    def parse(value: Any) -> str:
        if value not in accepted:
            raise ValueError(f"expected one of {', '.join(accepted)}")
        return str(value)

    return parse


def _number(value: Any) -> float:
    """NaN for what is none."""
    try:
        return math.nan if isinstance(value, bool) else float(value)
    except (TypeError, ValueError):
        return math.nan


def _seconds(value: Any) -> float:
    number = _number(value)
    if not 0 < number < 1e7:
        raise ValueError("expected a positive number of seconds")
    return number


def _delay(value: Any) -> float:
    number = _number(value)
    if not 0 <= number < 1e7:
        raise ValueError("expected a number of seconds, 0 for none")
    return number


def _days(value: Any) -> float:
    try:
        number = math.nan if isinstance(value, bool) else float(value)
    except (TypeError, ValueError):
        number = math.nan
    if not 0 < number <= 36_500:
        raise ValueError("expected a positive number of days")
    return number


def _count(value: Any) -> int:
    try:
        number = 0 if isinstance(value, bool | float) else int(value)
    except (TypeError, ValueError):
        number = 0
    if number < 1:
        raise ValueError("expected a positive whole number")
    return number


def _switch(value: Any) -> bool:
    if isinstance(value, bool):
        return value
    if isinstance(value, str) and value.lower() in ("1", "true", "yes", "on"):
        return True
    if isinstance(value, str) and value.lower() in ("0", "false", "no", "off"):
        return False
    raise ValueError("expected true or false")


def parse_dialects(value: Any) -> tuple[str, ...]:
    """Names separated by commas. Raises ValueError with what is accepted."""
    names = [name.strip() for name in value.split(",")] if isinstance(value, str) else []
    if not names or any(name not in DIALECTS for name in names):
        raise ValueError(f"expected one or more of {', '.join(DIALECTS)}, separated by commas")
    return tuple(dict.fromkeys(names))


def _headers(value: Any) -> tuple[tuple[str, str], ...]:
    """Text as in OTEL_EXPORTER_OTLP_HEADERS, values percent-encoded where they must be; or a mapping."""
    headers: list[tuple[Any, Any]] = []
    if isinstance(value, str):
        for pair in filter(str.strip, value.split(",")):
            name, _, text = pair.partition("=")
            headers.append((name.strip(), unquote(text.strip())))
    elif isinstance(value, dict):
        headers = list(value.items())
    if not headers or not all(
        isinstance(name, str) and _HEADER_NAME.fullmatch(name) and isinstance(text, str) and text
        for name, text in headers
    ):
        raise ValueError("expected NAME=VALUE,NAME=VALUE, such as x-api-key=${COLLECTOR_KEY}")
    return tuple(headers)


def parse_header_lines(value: Any) -> tuple[tuple[str, str], ...]:
    """Headers as `NAME:VALUE`, each an item or a line; or a mapping. Raises ValueError with what is accepted."""
    headers: list[tuple[Any, Any]] = []
    if isinstance(value, dict):
        headers = list(value.items())
    elif isinstance(value, str | list | tuple):
        lines = value.splitlines() if isinstance(value, str) else value
        headers = [(name.strip(), text.strip()) for name, _, text in (str(line).partition(":") for line in lines)]
    if not headers or not all(
        isinstance(name, str) and _HEADER_NAME.fullmatch(name) and isinstance(text, str) and text.strip()
        for name, text in headers
    ):
        raise ValueError("expected NAME:VALUE, such as 'Authorization: Bearer ${TOKEN}'")
    return tuple(headers)


def _upstream_headers(value: Any) -> tuple[tuple[str, str], ...]:
    headers = parse_header_lines(value)
    for name, _ in headers:
        if name.lower().encode() in NOT_TO_SET:
            raise ValueError(f"{name} is set by the proxy itself; leave it out")
    return headers


def _names(value: Any) -> tuple[str, ...]:
    names = value.split(",") if isinstance(value, str) else value
    if not isinstance(names, list) or not all(isinstance(name, str) and name.strip() for name in names):
        raise ValueError("expected names separated by commas")
    return tuple(dict.fromkeys(name.strip() for name in names))


def _setting(parse: Callable[[Any], Any], help_text: str, default: Any = dataclasses.MISSING, **extra: Any) -> Any:
    metadata = {"parse": parse, "help": help_text, **extra}
    if default is dataclasses.MISSING:
        return field(metadata=metadata)
    return field(default=default, metadata=metadata)


def _run_of_today() -> str:
    return f"serve-{datetime.now(UTC):%Y%m%dT%H%M%SZ}"


# ── the settings ────────────────────────────────────────────────────────────────────────────────────────────────


_FILE = {"metavar": "FILE"}


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Everything `serve` can be told. Field names are the YAML keys; flags and variables are made from them."""

    upstream: str = _setting(parse_url, "URL of the agent.", metavar="URL")
    listen: str = _setting(parse_address, "Where clients connect.", "127.0.0.1:8080", metavar="HOST:PORT")
    admin: str = _setting(
        parse_address, "Where the admin API and metrics are served.", "127.0.0.1:8081", metavar="HOST:PORT"
    )
    admin_token: str | None = _setting(
        _text, "Bearer token of the admin API; required when it is not on loopback.", None, secret=True
    )
    otlp: str | None = _setting(
        parse_address, "Where OpenTelemetry traces are received (OTLP/HTTP).", DEFAULT_OTLP, metavar="HOST:PORT"
    )
    otlp_grpc: str | None = _setting(
        parse_address,
        "Where traces are received over OTLP/gRPC too (needs the extra [grpc]).",
        None,
        metavar="HOST:PORT",
    )
    otlp_forward: str | None = _setting(
        parse_url, "Collector to which everything received over OTLP is sent on.", None, metavar="URL"
    )
    otlp_forward_headers: tuple[tuple[str, str], ...] = _setting(
        _headers,
        "Headers for that collector; ${VARIABLE} stands for an environment variable.",
        (),
        metavar="NAME=VALUE,...",
        secret=True,
    )
    tls_cert: str | None = _setting(
        _text, "Certificate (PEM, with its chain) to serve clients over HTTPS; read again when replaced.", None, **_FILE
    )
    tls_key: str | None = _setting(_text, "Private key of that certificate (PEM).", None, **_FILE)
    tls_key_password: str | None = _setting(_text, "Password of that key, where it is encrypted.", None, secret=True)
    tls_client_ca: str | None = _setting(
        _text, "Let in only clients with a certificate of these authorities (PEM).", None, **_FILE
    )
    upstream_ca: str | None = _setting(
        _text, "Authorities (PEM) the agent's certificate must come from, in place of the system's.", None, **_FILE
    )
    upstream_cert: str | None = _setting(
        _text, "Certificate (PEM, with its chain) that is shown to the agent.", None, **_FILE
    )
    upstream_key: str | None = _setting(_text, "Private key of that certificate (PEM).", None, **_FILE)
    upstream_key_password: str | None = _setting(
        _text, "Password of that key, where it is encrypted.", None, secret=True
    )
    upstream_header: tuple[tuple[str, str], ...] = _setting(
        _upstream_headers,
        "Header for the agent, in place of a client's; ${VARIABLE} and ${file:PATH} are filled in. Repeatable.",
        (),
        metavar="NAME:VALUE",
        secret=True,
        multiple=True,
    )
    expect_traces: bool = _setting(
        _switch, "Wait for traces of every turn, also of an agent that has not sent any yet.", False
    )
    trace_wait: float = _setting(
        _seconds, "Seconds after its end that a turn waits for the agent's spans.", 6.0, metavar="SECONDS"
    )
    conversation_attributes: tuple[str, ...] = _setting(
        _names,
        "Span attributes that hold the A2A contextId, besides the usual ones.",
        (),
        metavar="NAME,...",
    )
    public_url: str | None = _setting(
        parse_url, "URL under which clients reach the proxy; default: as their request says.", None, metavar="URL"
    )
    allow_hosts: tuple[str, ...] = _setting(
        _names,
        "Host names under which clients reach the proxy, and of pages that may use it, where it looks at these.",
        (),
        metavar="NAME,...",
    )
    card_path: str | None = _setting(
        _path, "Path of the agent card, where the agent has it elsewhere than at /.well-known/.", None, metavar="PATH"
    )
    negotiate: str = _setting(
        _one_of(NEGOTIATE_MODES),
        "When to ask the agent for tool calls: where its card declares the extension, always, or never.",
        "declared",
        choices=NEGOTIATE_MODES,
    )
    require_artifact_uri: bool = _setting(
        _switch, "Ignore tool calls of artifacts that do not list the extension's URI.", True
    )
    dialects: tuple[str, ...] = _setting(
        parse_dialects,
        f"Read tool calls that the agent tells in its framework's way too: {', '.join(DIALECTS)}.",
        (),
        metavar="NAME,...",
    )
    store: str = _setting(
        _text,
        "Where turns are kept: a file, sqlite:///path, or postgresql://... (needs the extra [postgres]).",
        DEFAULT_STORE,
        metavar="URL_OR_PATH",
    )
    redact: tuple[Rule, ...] = _setting(
        parse_rules,
        f"Redact what these find before anything is stored, judged or exported: {', '.join(DETECTORS)}; each with "
        ":hash or :drop if it is not to be masked. The file may have rules by path and pattern.",
        (),
        metavar="NAME[:ACTION],...",
    )
    redact_key: str | None = _setting(
        _text, "Key of the hashes; ${VARIABLE} and ${file:PATH} are filled in.", None, metavar="KEY", secret=True
    )
    no_content: bool = _setting(_switch, "Keep names, shapes and scores only, nothing that was said.", False)
    retain_days: float | None = _setting(
        _days, "Delete turns that ended longer ago; default: never.", None, metavar="DAYS"
    )
    retain_mb: int | None = _setting(
        _count, "Delete the oldest turns where the store takes more; default: never.", None, metavar="MB"
    )
    suite: str | None = _setting(_text, "Suite file with cases and evaluators.", None, metavar="FILE")
    allow_plugins: bool = _setting(_switch, "Run plug-ins of the suite that are outside its folder.", False)
    run: str = field(
        default_factory=_run_of_today,
        metadata={"parse": _text, "help": "Name of the run; default: serve- and the time.", "metavar": "NAME"},
    )
    evaluate: bool = _setting(_switch, "Score turns; without, they stay pending, for workers or `evaluate`.", True)
    turn_timeout: float = _setting(
        _seconds,
        "Seconds without news of a turn after which it is closed as incomplete, even if its request is still open.",
        300.0,
        metavar="SECONDS",
    )
    connect_timeout: float = _setting(
        _seconds, "Seconds to wait for a connection to the agent.", 10.0, metavar="SECONDS"
    )
    response_timeout: float | None = _setting(
        _seconds, "Seconds the agent may be silent; default: as long as it likes.", None, metavar="SECONDS"
    )
    drain_delay: float = _setting(
        _delay,
        "Seconds after SIGTERM in which new requests are still answered, while /readyz says 503.",
        0.0,
        metavar="SECONDS",
    )
    shutdown_timeout: float = _setting(
        _seconds,
        "Seconds after that for open responses to finish, and as many again for turns to be scored.",
        20.0,
        metavar="SECONDS",
    )
    client_header_timeout: float = _setting(
        _seconds, "Seconds a client may take to send the header of a request.", 60.0, metavar="SECONDS"
    )
    client_body_timeout: float = _setting(
        _seconds, "Seconds a client may be silent inside the body of a request.", 60.0, metavar="SECONDS"
    )
    client_send_timeout: float = _setting(
        _seconds, "Seconds a client may read nothing of a response that waits for it.", 60.0, metavar="SECONDS"
    )
    max_client_connections: int = _setting(
        _count, "Connections of clients at once; fewer where the system allows too few open files.", 10_000, metavar="N"
    )
    max_connections: int = _setting(_count, "Connections to the agent at once.", 10_000, metavar="N")
    max_body_bytes: int = _setting(
        _count,
        "Largest body or event that is read for capture; larger ones pass unread.",
        32 * 1024 * 1024,
        metavar="N",
    )
    max_header_bytes: int = _setting(
        _count, "Largest header block accepted from either side.", DEFAULT_MAX_HEADER_BYTES, metavar="N"
    )
    log_level: str = _setting(_one_of(LOG_LEVELS), "How much is logged to stderr.", "info", choices=LOG_LEVELS)

    def __post_init__(self) -> None:
        if not is_loopback(self.admin) and not self.admin_token:
            raise ConfigError(
                f"admin: {self.admin} is reachable from other machines; set an admin token (--admin-token), or "
                "bind to 127.0.0.1"
            )
        self._check_addresses()
        self._check_tls()
        if self.no_content and not self.evaluate:
            raise ConfigError(
                "no_content: what is not kept cannot be scored later; score it at once (without --no-evaluate)"
            )
        if self.otlp_forward and not self.otlp and not self.otlp_grpc:
            raise ConfigError("otlp_forward: nothing is received that could be sent on; leave out --no-otlp")
        for receiver in (self.otlp, self.otlp_grpc):
            if receiver and self.otlp_forward and _leads_to(self.otlp_forward, receiver):
                raise ConfigError(
                    f"otlp_forward: {self.otlp_forward} is where this proxy receives traces itself; give the URL of "
                    "a collector"
                )

    def _check_addresses(self) -> None:
        taken: dict[str, str] = {}
        for name in ("listen", "admin", "otlp", "otlp_grpc"):
            address = getattr(self, name)
            if address and not address.endswith(":0") and (other := taken.setdefault(address, name)) != name:
                raise ConfigError(f"{name}: {address} is the address of {other} already; give another")

    def _check_tls(self) -> None:
        check_pair("tls", self.tls_cert, self.tls_key)
        check_pair("upstream", self.upstream_cert, self.upstream_key)
        if self.tls_client_ca and not self.tls_cert:
            raise ConfigError("tls_client_ca: clients show certificates over HTTPS only; set tls_cert and tls_key, too")
        for name in ("upstream_ca", "upstream_cert"):
            if getattr(self, name) and not self.upstream.startswith("https:"):
                raise ConfigError(f"{name}: is for an agent that speaks HTTPS, but upstream is {self.upstream}")

    @property
    def host_names(self) -> tuple[str, ...]:
        """Names of ours that are configured."""
        listening = (split_address(address)[0] for address in (self.listen, self.admin))
        public = urlsplit(self.public_url).hostname if self.public_url else None
        return (*self.allow_hosts, *listening, *([public] if public else []))

    @property
    def adds_credentials(self) -> bool:
        """Whether who reaches the data port reaches the agent with more rights than of their own."""
        return bool(self.upstream_header or self.upstream_cert)

    @property
    def card_paths(self) -> tuple[str, ...]:
        """Where to look for the agent's card, in this order."""
        return (self.card_path,) if self.card_path else tuple(sorted(WELL_KNOWN_PATHS))

    def is_card_path(self, path: str) -> bool:
        """Whether a request for `path` is for an agent card: `card_path`, or a well-known one below any path.

        An upstream may serve several agents; a card that is not rewritten leads clients past the proxy.
        """
        return path == self.card_path or path.endswith(tuple(WELL_KNOWN_PATHS))

    def __repr__(self) -> str:
        texts = (
            f"{spec.name}={'***' if spec.metadata.get('secret') and value else repr(value)}"
            for spec in dataclasses.fields(self)
            if (value := shown(self.store) if spec.name == "store" else getattr(self, spec.name)) != spec.default
        )
        return f"Settings({', '.join(texts)})"


SETTINGS: Mapping[str, dataclasses.Field[Any]] = {spec.name: spec for spec in dataclasses.fields(Settings)}
"""By their names."""


def check_pair(setting: str, cert: str | None, key: str | None) -> None:
    """Raise ConfigError where only one of `setting`_cert and `setting`_key is given."""
    if bool(cert) != bool(key):
        given, missing = ("cert", "key") if cert else ("key", "cert")
        raise ConfigError(
            f"{setting}_{given}: needs {setting}_{missing}, too (the same file, where it holds certificate and key)"
        )


def is_loopback(address: str) -> bool:
    """Whether HOST:PORT can be reached from this machine only."""
    host = split_address(address)[0]
    if host == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


def split_address(address: str) -> tuple[str, int]:
    """`HOST:PORT` or `[IPv6]:PORT` as host and port."""
    host, _, port = address.rpartition(":")
    return host.strip("[]"), int(port)


def _leads_to(url: str, address: str) -> bool:
    """Whether a request to `url` arrives at who listens on HOST:PORT, as far as that can be told without DNS."""
    parts = urlsplit(url)
    host, port = split_address(address)
    if not port or port != (parts.port or (443 if parts.scheme == "https" else 80)):
        return False
    target = parts.hostname or ""
    if target == host:
        return True
    return is_loopback(f"{target}:{port}") and (is_loopback(address) or host in ("0.0.0.0", "::", "*"))  # noqa: S104  # compared with


def environment_name(setting: str) -> str:
    """The variable of a setting: `listen` is A2A_EVAL_PROXY_LISTEN."""
    return ENV_PREFIX + setting.upper()


def load_settings(
    flags: Mapping[str, Any],
    environment: Mapping[str, str],
    config_file: str | None = None,
    other_keys: Collection[str] = (),
) -> Settings:
    """Settings from flags (None: not given), environment and file. `other_keys` are those that the file may have for
    others. Raises ConfigError."""
    from_file = read_config_file(config_file, {*SETTINGS, *other_keys})
    values: dict[str, Any] = {}
    for name, spec in SETTINGS.items():
        if flags.get(name) not in (None, ()):
            origin, raw = f"--{name.replace('_', '-')}", flags[name]
        elif environment_name(name) in environment:
            origin, raw = environment_name(name), environment[environment_name(name)]
        elif name in from_file:
            origin, raw = f"{config_file}: {name}", from_file[name]
        else:
            continue
        if name == "otlp" and raw in (False, "", "off", "none"):
            values[name] = None
            continue
        try:
            values[name] = spec.metadata["parse"](raw)
        except ValueError as error:
            harmless = shown(raw) if isinstance(raw, str) and "@" in raw else raw
            got = "***" if spec.metadata.get("secret") else repr(harmless)
            raise ConfigError(f"{origin}: {error}, got {got}") from None
    if "upstream" not in values:
        raise ConfigError(
            f"the agent's URL is missing: give --upstream URL, set {environment_name('upstream')}, or write "
            "'upstream: URL' into the config file"
        )
    return Settings(**values)


def read_config_file(config_file: str | None, known: Collection[str]) -> dict[str, Any]:
    """What a YAML file sets, without what it sets to null; {} without a file. Raises ConfigError, also for a key that
    is not `known`."""
    if config_file is None:
        return {}
    try:
        content = yaml.safe_load(Path(config_file).read_text("utf-8"))
    except OSError as error:
        raise ConfigError(f"--config: cannot read {config_file}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise ConfigError(f"--config: {config_file} is not UTF-8 text") from None
    except (yaml.YAMLError, RecursionError) as error:
        mark = getattr(error, "problem_mark", None)
        where = f", line {mark.line + 1}" if mark else ""
        raise ConfigError(f"--config: {config_file}{where} is not YAML: {getattr(error, 'problem', error)}") from None
    if content is None:
        return {}
    if not isinstance(content, dict):
        raise ConfigError(f"--config: {config_file} holds no settings; expected lines such as 'upstream: URL'")
    content = {str(key).replace("-", "_"): value for key, value in content.items()}
    unknown = [key for key in content if key not in known]
    if unknown:
        from tool_call_evaluators.options import or_known

        raise ConfigError(f"{config_file}: unknown setting {unknown[0]!r}{or_known(unknown[0], sorted(known))}")
    return {key: value for key, value in content.items() if value is not None}
