"""Types of values: how each is written in help, and how it is read from a flag's text or a YAML value.

Every parser raises ValueError with what is accepted.
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from ipaddress import ip_address
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import SplitResult, unquote, urlsplit

from a2a_tool_capture.card_search import WELL_KNOWN_PATHS
from a2a_tool_capture.dialect import known_dialects
from a2a_tool_capture.errors import ConfigurationError
from a2a_tool_capture.secret_references import resolve

from ..privacy.redactor import parse_rules
from ..protocol.headers import NOT_TO_SET

_HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+", re.ASCII)
"""RFC 9110, section 5.6.2."""
AGENT_NAME = re.compile(r"[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?", re.ASCII)
"""As a label of a host name: an agent's name may be part of one, and stands in paths and metrics."""
_HOST_AND_PORT = re.compile(r"(localhost|[\w-]+(\.[\w-]+)+|\[[0-9a-fA-F:]+\]|[\w-]+(?=:\d))(:\d+)?(/|$)", re.ASCII)
"""What is taken for an agent's URL without its scheme."""
_MAX_SECONDS = 1e7
TRACE_ID = "{trace_id}"
"""Stands for the id in the address of a trace."""
_TRUE, _FALSE = ("1", "true", "t", "yes", "y", "on"), ("0", "false", "f", "no", "n", "off")


@dataclass(frozen=True, slots=True)
class ValueType:
    """A type of value. `parse` raises ValueError with what is accepted."""

    parse: Callable[[Any], Any]
    metavar: str
    choices: tuple[str, ...] = ()
    unset: Any = None
    """The value of an option that is not given, unless the option has a default."""


def parse_text(value: Any) -> str:
    """A non-empty string without surrounding blanks."""
    if not isinstance(value, str) or not value.strip():
        raise ValueError("expected a non-empty string")
    return value.strip()


MIN_TOKEN = 16
"""Characters of a token: 64 bits even of one that has hexadecimal digits alone."""


def parse_token(value: Any) -> str:
    """A token of at least `MIN_TOKEN` characters that a header can hold; references are expanded."""
    try:
        token = resolve("a token", parse_text(value)).strip()
    except ConfigurationError as error:
        raise ValueError(f"{error}; expected a token") from None
    if len(token) < MIN_TOKEN or not token.isascii() or not token.isprintable() or " " in token:
        raise ValueError(
            f"a token of at least {MIN_TOKEN} printable ASCII characters without blanks is expected; "
            "'openssl rand -hex 32' makes one"
        )
    return token


def parse_url(value: Any) -> str:
    """An http or https URL without query and without a slash at its end.

    A user name is refused: URLs are logged, stored and shown to clients.
    """
    text = parse_text(value)
    parts = _split_url(text)
    if parts is None or parts.port == 0 or "?" in text or "#" in text or any(char.isspace() for char in text):
        raise ValueError("expected a URL such as http://127.0.0.1:9999, without query")
    if "@" in parts.netloc:
        raise ValueError("expected a URL without user name and password (send these in a header)")
    return text.rstrip("/")


def parse_trace_url(value: Any) -> str:
    """An http or https URL with `{trace_id}` after its host. Every other character is kept."""
    text = parse_text(value)
    parts = _split_url(text)
    is_one_word = text.isprintable() and not any(char.isspace() for char in text)
    if parts is None or "{" in parts.netloc or "@" in parts.netloc or TRACE_ID not in text or not is_one_word:
        raise ValueError(f"expected a URL such as http://jaeger:16686/trace/{TRACE_ID}, without user name")
    return text


def _split_url(text: str) -> SplitResult | None:
    """The parts of an http or https URL; None for any other text."""
    try:
        parts = urlsplit(text)
        _ = parts.port, (parts.hostname or "").encode("idna")  # raises ValueError for what is no number, or no name
    except ValueError:
        return None
    return parts if parts.scheme in ("http", "https") and parts.hostname else None


def parse_agent_url(value: Any) -> str:
    """As `parse_url`, for the URL of an agent: `http://` may be missing, and the URL of its card stands for it."""
    text = parse_text(value)
    if os.path.isfile(text):  # noqa: PTH113  # Path raises where a name is too long for a file
        raise ValueError("expected a URL such as http://127.0.0.1:9999, not a file (are two arguments swapped?)")
    if _HOST_AND_PORT.match(text):
        text = f"http://{text}"
    for path in WELL_KNOWN_PATHS:
        text = text.removesuffix(path)
    return parse_url(text)


def parse_upstream(value: Any) -> str:
    """As `parse_agent_url`, or `grpc://HOST:PORT` (plain text) or `grpcs://HOST:PORT` (TLS)."""
    text = parse_text(value)
    scheme, mark, address = text.partition("://")
    address = address.rstrip("/")
    if not mark or scheme.lower() not in ("grpc", "grpcs"):
        return parse_agent_url(text)
    parts = _split_url(f"http://{address}")
    if parts is None or parts.netloc != address or not parts.port or "@" in address:
        raise ValueError("expected grpc://HOST:PORT or grpcs://HOST:PORT, without path and user name")
    return f"{scheme.lower()}://{address}"


def parse_agent(value: Any) -> str:
    """The URL of an A2A agent, `python:...`, or `openai:` and a URL, which may have a query."""
    text = parse_text(value)
    if text.startswith("python:"):
        return text
    if text.startswith("openai:"):
        url, mark, query = text.removeprefix("openai:").partition("?")
        return f"openai:{parse_url(url)}{mark}{query}"
    return parse_upstream(text)


def parse_address(value: Any) -> str:
    """HOST:PORT, as given."""
    text = parse_text(value)
    host, _, port = text.rpartition(":")
    if not host or not port.isascii() or not port.isdigit() or int(port) > 65535:
        raise ValueError("expected HOST:PORT such as 127.0.0.1:8080 (port 0: any free port)")
    return text


def _address_or_off(value: Any) -> str | None:
    return None if value in (False, "", "none", *_FALSE) else parse_address(value)


def _url_path(value: Any) -> str:
    text = parse_text(value)
    if not text.startswith("/"):
        raise ValueError("expected a path that begins with /")
    return text


def _number_type(
    metavar: str, expected: str, accepts: Callable[[float], bool], read: Callable[[Any], float] = float
) -> ValueType:
    def parse(value: Any) -> float:
        try:
            number = math.nan if isinstance(value, bool) else read(value)
        except (TypeError, ValueError, OverflowError):
            number = math.nan
        if not accepts(number):
            raise ValueError(f"expected {expected}")
        return number

    return ValueType(parse, metavar)


def _whole(value: Any) -> int:
    return int(str(value))


def _share(value: Any) -> float:
    text = str(value).strip()
    return float(text.removesuffix("%")) / 100 if text.endswith("%") else float(text)


def _switch(value: Any) -> bool:
    word = str(value).lower() if isinstance(value, bool | str) else ""
    if word not in (*_TRUE, *_FALSE):
        raise ValueError("expected true or false")
    return word in _TRUE


class Rate(NamedTuple):
    """A number for each period of `period_s` seconds."""

    number: int
    period_s: float
    text: str
    """As given, such as `500/h`."""


_PERIODS_S = {"min": 60.0, "h": 3600.0, "d": 86_400.0}


def _rate(value: Any) -> Rate:
    count, _, period = value.strip().partition("/") if isinstance(value, str) else ("", "", "")
    if not (count.isascii() and count.isdigit() and len(count) <= 9) or period not in _PERIODS_S:
        raise ValueError("expected a whole number for each minute, hour or day, such as 20/min, 500/h or 5000/d")
    return Rate(int(count), _PERIODS_S[period], value.strip())


def some_of(metavar: str, choices: Sequence[str]) -> ValueType:
    """Some of a few words, separated by commas."""

    def parse(value: Any) -> tuple[str, ...]:
        names = [name.strip() for name in value.split(",")] if isinstance(value, str) else []
        if not names or any(name not in choices for name in names):
            raise ValueError(f"expected one or more of {', '.join(choices)}, separated by commas")
        return tuple(dict.fromkeys(names))

    return ValueType(parse, metavar, tuple(choices), unset=())


def _names(value: Any) -> tuple[str, ...]:
    names = value.split(",") if isinstance(value, str) else value
    if not isinstance(names, list) or not all(isinstance(name, str) and name.strip() for name in names):
        raise ValueError("expected names separated by commas")
    return tuple(dict.fromkeys(name.strip() for name in names))


def _texts(value: Any) -> tuple[str, ...]:
    """Strings of a list or of several flags; a single string has one on each line."""
    texts = value.splitlines() if isinstance(value, str) else value
    if not isinstance(texts, list | tuple) or not texts or not all(isinstance(text, str) for text in texts):
        raise ValueError("expected a string or a list of strings, in quotes if they contain a colon")
    return tuple(texts)


def _valid_headers(headers: Iterable[tuple[Any, Any]], expected: str) -> tuple[tuple[str, str], ...]:
    headers = tuple(headers)
    if not headers or not all(
        isinstance(name, str) and _HEADER_NAME.fullmatch(name) and isinstance(text, str) and text.strip()
        for name, text in headers
    ):
        raise ValueError(f"expected {expected}")
    return headers


def named_texts(text: str) -> list[tuple[str, str]]:
    """The pairs of NAME=VALUE,NAME=VALUE, in their order; the value of a name that has none is ""."""
    pairs = (pair.partition("=") for pair in text.split(",") if pair.strip())
    return [(name.strip(), value.strip()) for name, _, value in pairs]


def _header_pairs(value: Any) -> tuple[tuple[str, str], ...]:
    """A string as in OTEL_EXPORTER_OTLP_HEADERS, with percent-encoded values; or a mapping."""
    headers: Iterable[tuple[Any, Any]] = value.items() if isinstance(value, dict) else ()
    if isinstance(value, str):
        headers = ((name, unquote(text)) for name, text in named_texts(value))
    return _valid_headers(headers, "NAME=VALUE,NAME=VALUE, such as x-api-key=${COLLECTOR_KEY}")


def _header_lines(value: Any) -> tuple[tuple[str, str], ...]:
    """Headers as `NAME:VALUE`, each an item or a line; or a mapping."""
    headers: Iterable[tuple[Any, Any]] = value.items() if isinstance(value, dict) else ()
    if isinstance(value, str | list | tuple):
        lines = value.splitlines() if isinstance(value, str) else map(str, value)
        headers = ((name.strip(), text.strip()) for name, _, text in (line.partition(":") for line in lines))
    return _valid_headers(headers, "NAME:VALUE, such as 'Authorization: Bearer ${TOKEN}'")


def _upstream_headers(value: Any) -> tuple[tuple[str, str], ...]:
    headers = _header_lines(value)
    for name, _ in headers:
        if name.lower().encode() in NOT_TO_SET:
            raise ValueError(f"{name} is set by the proxy itself; leave it out")
    return headers


def _agents(value: Any) -> tuple[tuple[str, dict[str, Any]], ...]:
    """The agents by name, each with its settings: text as in `--agents`, or a mapping with their settings or URLs.
    Their settings are parsed where they are laid over those of the proxy."""
    if isinstance(value, str):
        pairs = named_texts(value)
        value = dict(pairs) if len(dict(pairs)) == len(pairs) else None
    if not isinstance(value, dict) or not value:
        raise ValueError("expected NAME=URL,NAME=URL, or in a config file a mapping of names to settings or URLs")
    found = []
    for name, given in value.items():
        if not isinstance(name, str) or not AGENT_NAME.fullmatch(name):
            raise ValueError(f"{str(name)[:80]!r} is no name of an agent: expected at most 63 letters, digits and -")
        settings = {"upstream": given} if isinstance(given, str) else given
        if not isinstance(settings, dict) or not all(isinstance(key, str) for key in settings):
            raise ValueError(f"expected settings such as 'upstream: URL' for {name}")
        found.append((name, {key.replace("-", "_"): one for key, one in settings.items()}))
    return tuple(found)


def _output_directory(value: Any) -> Path:
    """Created when written; checked at once, so that a run does not fail at its end."""
    folder = Path(parse_text(value))
    existing = next(path for path in (folder, *folder.absolute().parents) if path.exists() or path.is_symlink())
    if not existing.is_dir():
        raise ValueError(f"cannot create the directory, as {'it' if existing == folder else existing} is a file")
    if not os.access(existing, os.W_OK | os.X_OK):
        raise ValueError("expected a directory that can be written to")
    return folder


def _output_file(value: Any) -> Path:
    """Checked at once, as by `_output_directory`."""
    path = Path(parse_text(value))
    if not path.parent.is_dir():
        raise ValueError(f"there is no directory {str(path.parent)!r}; create it first")
    if path.is_dir() or not os.access(path if path.exists() else path.parent, os.W_OK):
        raise ValueError("expected a file that can be written to")
    return path


def one_of(*choices: str) -> ValueType:
    def parse(value: Any) -> str:
        if value not in choices:
            raise ValueError(f"expected one of {', '.join(choices)}")
        return str(value)

    return ValueType(parse, f"[{'|'.join(choices)}]", choices)


TEXT = ValueType(parse_text, "TEXT")
TOKEN = ValueType(parse_token, "TOKEN")
TEXTS = ValueType(_texts, "TEXT", unset=())
NAME = ValueType(parse_text, "NAME")
FILE = ValueType(parse_text, "FILE")
SUITE_FILES = ValueType(_texts, "SUITE...", unset=())
STORE = ValueType(parse_text, "URL_OR_PATH")
OUTPUT_FILE = ValueType(_output_file, "FILE")
OUTPUT_DIRECTORY = ValueType(_output_directory, "DIR")
URL = ValueType(parse_url, "URL")
AGENT = ValueType(parse_agent, "URL")
UPSTREAM = ValueType(parse_upstream, "URL")
TRACE_URL = ValueType(parse_trace_url, "URL")
URL_PATH = ValueType(_url_path, "PATH")
AGENTS = ValueType(_agents, "NAME=URL,...", unset=())
ADDRESS = ValueType(parse_address, "HOST:PORT")
ADDRESS_OR_OFF = ValueType(_address_or_off, "HOST:PORT")
SECONDS = _number_type("SECONDS", "a positive number of seconds", lambda number: 0 < number < _MAX_SECONDS)
SECONDS_OR_0 = _number_type("SECONDS", "a number of seconds, 0 or more", lambda number: 0 <= number < _MAX_SECONDS)
SECONDS_FROM_1 = _number_type("SECONDS", "a number of seconds, 1 or more", lambda number: 1 <= number < _MAX_SECONDS)
SHARE = _number_type("SHARE", "a number from 0 to 1, or 0% to 100%", lambda number: 0 <= number <= 1, _share)
DAYS = _number_type("DAYS", "a positive number of days", lambda number: 0 < number <= 36_500)
WHOLE_NUMBER = _number_type("N", "a whole number", lambda number: not math.isnan(number), _whole)
COUNT = _number_type("N", "a positive whole number", lambda number: number >= 1, _whole)
PORT = _number_type("PORT", "a whole number from 0 to 65535", lambda number: 0 <= number <= 65_535, _whole)
UP_TO_1000 = _number_type("N", "a whole number from 1 to 1000", lambda number: 1 <= number <= 1000, _whole)
RATE = ValueType(_rate, "N/PERIOD")
NAMES = ValueType(_names, "NAME,...", unset=())
DIALECT_NAMES = some_of("NAME,...", tuple(known_dialects()))
HEADER_PAIRS = ValueType(_header_pairs, "NAME=VALUE,...", unset=())
HEADERS = ValueType(_header_lines, "NAME:VALUE", unset=())
UPSTREAM_HEADERS = ValueType(_upstream_headers, "NAME:VALUE", unset=())
REDACTION_RULES = ValueType(parse_rules, "NAME[:ACTION],...", unset=())
FLAG = ValueType(_switch, "", unset=False)
"""A flag without opposite."""
SWITCH = ValueType(_switch, "", unset=False)
"""A flag with an opposite: `--NAME / --no-NAME`."""


def is_loopback(address: str) -> bool:
    """Whether HOST:PORT is reachable from this machine only."""
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
