"""Where turns are kept. The store is also the queue: what is pending survives a crash."""

from pathlib import Path

from .base import (
    ConversationKey,
    Page,
    RunSummary,
    Scored,
    ScoredConversation,
    Store,
    StoreError,
    TurnQuery,
    every_turn,
)
from .sqlite import SqliteStore

__all__ = [
    "ConversationKey",
    "Page",
    "RunSummary",
    "Scored",
    "ScoredConversation",
    "SqliteStore",
    "Store",
    "StoreError",
    "TurnQuery",
    "every_turn",
    "open_store",
]


def open_store(location: str, *, must_exist: bool = False) -> SqliteStore:
    """The store at a path or `sqlite:///path`, made if need be.

    Raises StoreError for what is neither, cannot be opened, or (with `must_exist`) is not there.
    """
    path = location.removeprefix("sqlite:///")
    if "://" in path:
        raise StoreError(f"store {location.split('://')[0]}://... is not supported; give a path or sqlite:///path")
    if must_exist and not Path(path).is_file():
        raise StoreError(f"store {path}: there is no such file")
    return SqliteStore(path)
