"""Brings a database to the schema of this version, under a lock: any number of processes may start together."""

from __future__ import annotations

from pathlib import Path

import psycopg
from alembic import command
from alembic.config import Config
from alembic.script import ScriptDirectory
from alembic.util import CommandError
from procrastinate.schema import SchemaManager
from psycopg.conninfo import conninfo_to_dict
from sqlalchemy import Connection, create_engine, inspect, text
from sqlalchemy.exc import OperationalError, SQLAlchemyError
from sqlalchemy.pool import NullPool

from ...settings.store_url import check_postgres, masked_url
from ..base import StoreError, StoreUnreachableError
from ..schema import POSTGRES
from .database import CONNECT_TIMEOUT_S, passes, reason

VERSION_TABLE = "a2a_eval_proxy_version"

JOB_ENGINE = "03.04.00_50_post_add_retry_failed_job_procedure.sql"
"""The last migration of procrastinate that its tables have. Later ones become a revision of ours."""

_MIGRATING = 0x6132_6165_7661_6C02
"""Advisory lock of who migrates."""


def check_url(url: str) -> None:
    """Raises StoreError for what is no URL of a database."""
    try:
        check_postgres(url)
        conninfo_to_dict(url)
    except (ValueError, psycopg.ProgrammingError) as error:
        raise StoreError(f"store {masked_url(url)}: {reason(error)}") from None


def migrate(url: str, *, must_exist: bool = False) -> None:
    """Make the tables of a store, or bring them to this version. What is there stays.

    Raises StoreUnreachableError where the database does not let us in, or cannot make them now; StoreError where it
    (`must_exist`) holds no store, holds one of a later version, or something else under the names of our tables.
    """
    engine = create_engine(
        "postgresql+psycopg://",
        creator=lambda: psycopg.connect(url, connect_timeout=CONNECT_TIMEOUT_S),
        poolclass=NullPool,
    )
    try:
        with engine.begin() as connection:
            connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": _MIGRATING})
            if inspect(connection).has_table(VERSION_TABLE):
                command.upgrade(_config(connection), "head")
            elif must_exist:
                raise StoreError(
                    f"store {masked_url(url)}: the database holds no store; has anything been captured into it?"
                )
            else:
                _create(connection)
    except CommandError as error:
        raise StoreError(
            f"store {masked_url(url)}: it is of another version ({error}); use that or a later one"
        ) from error
    except (OperationalError, OSError) as error:
        raise StoreUnreachableError(f"store {masked_url(url)}: cannot connect: {reason(error)}") from error
    except (SQLAlchemyError, psycopg.Error) as error:
        if passes(error):
            problem = f"store {masked_url(url)}: its tables cannot be created: {reason(error)}"
            raise StoreUnreachableError(problem) from error
        raise StoreError(
            f"store {masked_url(url)}: its tables cannot be created: {reason(error)}; give a database of its own"
        ) from error


def _create(connection: Connection) -> None:
    """Create the tables of the store and of its job engine, procrastinate, as its release makes them."""
    cursor = (
        connection.connection.cursor()
    )  # the engine's statements have colons, which `text` would read as parameters
    for statement in (*POSTGRES.statements(), SchemaManager.get_schema()):
        cursor.execute(statement)
    cursor.close()
    command.stamp(_config(connection), "head")


def latest_revision() -> str | None:
    """The revision to which `migrate` brings a database."""
    return ScriptDirectory.from_config(_config(None)).get_current_head()


def _config(connection: Connection | None) -> Config:
    config = Config()
    config.set_main_option("script_location", str(Path(__file__).parent / "migrations"))
    config.attributes["connection"] = connection
    config.attributes["version_table"] = VERSION_TABLE
    return config
