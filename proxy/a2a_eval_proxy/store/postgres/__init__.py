"""The store in a PostgreSQL database, shared by many proxies and workers. It needs the extra [postgres]."""

from importlib.util import find_spec

from ..base import StoreError


def require_extra() -> None:
    """Raises StoreError where what the extra brings is not installed."""
    if find_spec("psycopg") is None:
        raise StoreError("a PostgreSQL store needs psycopg: pip install 'a2a-eval-proxy[postgres]'")
