"""Where a store is, as users write it: a path, `sqlite:///path` or `postgresql://...`."""

from __future__ import annotations

from urllib.parse import parse_qsl, quote, urlencode, urlsplit

POSTGRES_SCHEMES = ("postgresql", "postgres")
_MASK = "***"


def is_postgres(location: str) -> bool:
    """Whether it is a URL of a PostgreSQL database."""
    return location.partition("://")[0] in POSTGRES_SCHEMES and "://" in location


def file_path(location: str) -> str:
    """The path of a store in a file."""
    return location.removeprefix("sqlite:///")


def shown(location: str) -> str:
    """The location as logs and messages may show it: without its password."""
    scheme, separator, _ = location.partition("://")
    if not separator or scheme == "sqlite":
        return location
    try:
        parts = urlsplit(location)
        login, at, host = parts.netloc.rpartition("@")
        user, colon, _ = login.partition(":")
        query = [(key, _MASK if "password" in key.lower() else value) for key, value in parse_qsl(parts.query)]
        text = urlencode(query, quote_via=quote, safe="*/")
        return f"{scheme}://{user}{colon and ':' + _MASK}{at}{host}{parts.path}{text and '?' + text}"
    except ValueError:  # no URL at all: who knows where the password is
        return f"{scheme}://{_MASK}"
