"""Keeps turns and their results in SQLite or PostgreSQL, and is the queue of scoring: pending turns survive a crash.

It is given closed and open turns, results and limits, which wait in the one bounded queue of `write_queue` and are
committed in groups on a thread of its own; reads (`reads`) run concurrently. It hands on turns, runs and conversations
in their JSON forms; statements are written once (`schema`, `writes`, `reads`), and `dialects` has what differs.
"""

from pathlib import Path

from ..settings.store_url import file_path, is_postgres
from .base import (
    ConversationKey,
    Page,
    RunSummary,
    Scored,
    ScoredConversation,
    StoreError,
    StoreFileError,
    StoreHealth,
    StoreUnreachableError,
    TurnQuery,
)
from .sqlite.store import SqliteStore, observations_in_memory
from .store import Store, every_turn

__all__ = [
    "ConversationKey",
    "Page",
    "RunSummary",
    "Scored",
    "ScoredConversation",
    "SqliteStore",
    "Store",
    "StoreError",
    "StoreFileError",
    "StoreHealth",
    "StoreUnreachableError",
    "TurnQuery",
    "every_turn",
    "observations_in_memory",
    "open_store",
]


def open_store(location: str, *, must_exist: bool = False, for_workers: bool = False, patient: bool = False) -> Store:
    """The store at a path, `sqlite:///path` or `postgresql://...`, made if need be.

    `for_workers`: turns that are added as pending are scored by workers, if the store can notify them.
    `patient`: it is not opened yet; `Store.start` does that, and tries for as long as it takes.
    Raises StoreError for what is neither, cannot be opened, or (with `must_exist`) is not there.
    """
    if is_postgres(location):
        from .postgres import require_extra

        require_extra()
        from .postgres.store import PostgresStore

        return PostgresStore(location, must_exist=must_exist, for_workers=for_workers, patient=patient)
    path = file_path(location)
    if "://" in path:
        scheme = location.split("://")[0]
        raise StoreError(f"store {scheme}://... is not supported; give a path, sqlite:///path or postgresql://...")
    if must_exist and not Path(path).is_file():
        problem = "is a directory" if Path(path).is_dir() else "there is no such file"
        raise StoreError(f"store {path}: {problem}; --store names another")
    return SqliteStore(path, patient=patient)
