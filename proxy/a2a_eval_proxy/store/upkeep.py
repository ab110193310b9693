"""What an operator does with a store by hand: back it up, restore it."""

from __future__ import annotations

from pathlib import Path

from .. import audit
from ..errors import ConfigError
from ..settings.store_url import file_path, is_postgres, masked_url
from .sqlite import backup

_OF_POSTGRES = "is for SQLite; for PostgreSQL use {tool}, as in the page Operations"


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
