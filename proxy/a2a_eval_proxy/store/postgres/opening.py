"""Opens a database as a store: any number of processes may start together."""

from __future__ import annotations

import psycopg
from psycopg.conninfo import conninfo_to_dict

from ...settings.store_url import check_postgres, masked_url
from ..base import StoreError, StoreUnreachableError
from .database import CONNECT_TIMEOUT_S, passes, reason
from .migrations import migrate

_MIGRATING = 0x6132_6165_7661_6C02
"""Advisory lock of who migrates."""


def check_url(url: str) -> None:
    """Raises StoreError for what is no URL of a database."""
    try:
        check_postgres(url)
        conninfo_to_dict(url)
    except (ValueError, psycopg.ProgrammingError) as error:
        raise StoreError(f"store {masked_url(url)}: {reason(error)}") from None


def prepare(url: str, *, must_exist: bool = False) -> None:
    """Make the tables of a store, or bring them to this version, in one transaction. What is there stays.

    Raises StoreUnreachableError where the database does not let us in, or cannot make them now; StoreError where it
    (`must_exist`) holds no store, holds one of a later version, or something else under the names of our tables.
    """
    name = f"store {masked_url(url)}"
    try:
        with psycopg.connect(url, connect_timeout=CONNECT_TIMEOUT_S) as connection:
            connection.execute("SELECT pg_advisory_xact_lock(%s)", (_MIGRATING,))
            migrate(connection, must_exist=must_exist)
    except StoreError as error:
        raise StoreError(f"{name}: {error}") from error
    except (psycopg.OperationalError, OSError) as error:
        raise StoreUnreachableError(f"{name}: cannot connect: {reason(error)}") from error
    except psycopg.Error as error:
        problem = f"{name}: its tables cannot be created: {reason(error)}"
        if passes(error):
            raise StoreUnreachableError(problem) from error
        raise StoreError(f"{problem}; give a database of its own") from error
