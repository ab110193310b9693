"""The store in a PostgreSQL database, shared by many proxies and workers. It needs the extra [postgres]."""

from importlib.util import find_spec

from ..base import StoreError

_MODULES = ("psycopg", "procrastinate")


def require_extra() -> None:
    """Raises StoreError where what the extra brings is not installed."""
    missing = [module for module in _MODULES if find_spec(module) is None]
    if missing:
        raise StoreError(f"a PostgreSQL store needs {', '.join(missing)}: pip install 'a2a-eval-proxy[postgres]'")
