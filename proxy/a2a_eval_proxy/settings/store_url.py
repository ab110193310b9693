"""Where a store is, as users write it: a path, `sqlite:///path` or `postgresql://...`."""

from __future__ import annotations

import re
from urllib.parse import parse_qsl, quote, urlencode

POSTGRES_SCHEMES = ("postgresql", "postgres")

_MASK = "***"
_HARMLESS = ("host", "port", "user", "dbname", "sslmode")
"""Parameters of a URL whose values are shown."""

_HOST = r"(?:\[[\w:.%]*\]|[^\s:@/?#\[\],]*)(?::\d*)?"
_BEHIND_LOGIN = re.compile(rf"{_HOST}(?:,{_HOST})*(/[^\s@?#]*)?(\?[^\s@#]*)?")
_LOGIN = re.compile(r"[^\s:@/?#\[\]]*(:[^\s@/?#\[\]]*)?")
_BAD_PERCENT = re.compile(r"%(?![0-9A-Fa-f]{2})")


def is_postgres(location: str) -> bool:
    """Whether it is meant as the URL of a PostgreSQL database."""
    scheme, colon, _ = location.partition(":")
    return bool(colon) and scheme.lower() in POSTGRES_SCHEMES


def check_postgres(location: str) -> None:
    """Raises ValueError for a URL that drivers read differently. The error repeats no part of the URL."""
    scheme, separator, rest = location.partition("://")
    login, _, rest = rest.rpartition("@")
    if not (
        separator
        and scheme in POSTGRES_SCHEMES
        and _LOGIN.fullmatch(login)
        and _BEHIND_LOGIN.fullmatch(rest)
        and not _BAD_PERCENT.search(location)
    ):
        raise ValueError(
            "expected postgresql://HOST:PORT/DATABASE, or USER:PASSWORD@ before HOST, with %25 for %, %2F for /, %3F "
            "for ?, %23 for #, %40 for @, %5B and %5D for brackets, %20 for a space"
        )


def file_path(location: str) -> str:
    return location.removeprefix("sqlite:///")


def masked_url(location: str) -> str:
    """The location as logs and messages may show it: without its password, also where that is not well-formed."""
    scheme, separator, rest = location.partition("://")
    if not separator or scheme == "sqlite":
        return f"{scheme.partition(':')[0]}:{_MASK}" if is_postgres(location) else location
    login, at, rest = rest.rpartition("@")  # the last one: a password may hold what should have been encoded
    if not _BEHIND_LOGIN.fullmatch(rest):
        return f"{scheme}://{_MASK}"
    user = re.split("[:/?#@]", login, maxsplit=1)[0]
    place, _, query = rest.partition("?")
    parameters = [(key, value if key in _HARMLESS else _MASK) for key, value in parse_qsl(query)]
    text = urlencode(parameters, quote_via=quote, safe="*/")
    return f"{scheme}://{user}{':' + _MASK if login != user else ''}{at}{place}{text and '?' + text}"
