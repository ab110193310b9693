"""What an operator does with a store by hand: migrate it, back it up, restore it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from .. import audit
from ..errors import ConfigError
from ..settings.store_url import file_path, is_postgres, masked_url
from . import open_store
from .base import StoreFileError
from .schema import Upgrade
from .sqlite import backup, file

_OF_POSTGRES = "is for SQLite; for PostgreSQL use {tool}, as in the page Operations"


def migrated(location: str) -> Iterator[str]:
    """Bring the schema of a store to this version: says what will be done, then does it.

    Raises StoreError for what is no store or one of a later version, StoreFileError for one that cannot be written.
    """
    name, upgrade = f"store {masked_url(location)}", upgrade_of(location)
    if upgrade.version == upgrade.latest:
        yield f"{name}: has schema {upgrade.version}, that of this version of a2a-eval-proxy; there is nothing to do"
        return
    yield f"{name}: has schema {upgrade.version}, this version of a2a-eval-proxy has {upgrade.latest}; it is changed by"
    for statement in upgrade.statements:
        yield f"  {' '.join(statement.split())}"
    if not is_postgres(location) and file.is_read_only(file_path(location)):
        raise StoreFileError(f"{name}: cannot be written")
    open_store(location, must_exist=True).close()
    yield f"{name}: has schema {upgrade_of(location).version} now"


def upgrade_of(location: str) -> Upgrade:
    """That of an existing store. Raises StoreError for a missing one, or one of an unknown version."""
    if not is_postgres(location):
        return file.upgrade_of(file_path(location))
    from .postgres import require_extra

    require_extra()
    from .postgres.store import upgrade_of

    return upgrade_of(location)


def backed_up(location: str, target: Path) -> str:
    """Copy a store to a new file. Raises StoreError, and ConfigError for PostgreSQL."""
    if is_postgres(location):
        raise ConfigError(f"backup {_OF_POSTGRES.format(tool='pg_dump')}")
    turns = backup.back_up(file_path(location), target)
    audit.changed(store=masked_url(location), copied_to=str(target.absolute()))
    return f"{target}: {turns} turns, {target.stat().st_size} bytes"


def restored(source: Path, location: str) -> str:
    """Put a copy of a backup in the place of a store. Raises StoreError, and ConfigError for PostgreSQL."""
    if is_postgres(location):
        raise ConfigError(f"restore {_OF_POSTGRES.format(tool='pg_restore')}")
    path = file_path(location)
    turns, former = backup.restore(source, path)
    audit.changed(store=path, restored=str(source.absolute()), former=str(former or ""))
    return f"{path}: {turns} turns" + (f"; the former store is {former}" if former else "")
