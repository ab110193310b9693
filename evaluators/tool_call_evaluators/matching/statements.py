"""Compares SQL statements in their normal form, by a parser that an extra installs."""

from __future__ import annotations

import logging
from functools import lru_cache
from typing import Any

MAX_LENGTH = 4_000
"""Longer statements cannot be compared: normalising takes time in the square of their conditions."""


def same_statement(wanted: Any, given: Any, dialect: Any = None) -> bool:
    """Whether `given` is the SQL statement `wanted`, in the `dialect` of this name.

    Raises ValueError if `wanted` is no statement, or the dialect unknown; for a statement that is too long or too deep;
    and without the parser.
    """
    if not isinstance(wanted, str) or not isinstance(dialect, str | None):
        raise ValueError(f"takes a statement, and the name of a dialect; got {wanted!r} and {dialect!r}")
    if (form := _normal_form(wanted, dialect)) is None:
        raise ValueError(f"takes one statement that can be parsed, got {wanted!r}")
    return bool(given == wanted) or (isinstance(given, str) and _normal_form(given, dialect) == form)


@lru_cache(maxsize=512)
def _normal_form(statement: str, dialect: str | None) -> str | None:
    """The same text for statements that differ only in how they are written: case of keywords and of names without
    quotes, white space, comments, the order of conditions. None for a text that is not one statement."""
    try:
        import sqlglot
        from sqlglot.errors import SqlglotError
        from sqlglot.optimizer.normalize_identifiers import normalize_identifiers
        from sqlglot.optimizer.simplify import simplify
    except ImportError:
        raise ValueError("needs a parser: pip install 'a2a-eval-proxy[sql]'") from None
    if len(statement) > MAX_LENGTH:
        raise ValueError(f"cannot compare a statement of more than {MAX_LENGTH:,} characters")
    logging.getLogger("sqlglot").setLevel(logging.ERROR)  # its warnings quote statements, which are content
    try:
        found = [tree for tree in sqlglot.parse(statement, dialect=dialect) if tree is not None]
        if len(found) != 1:
            return None
        tree = simplify(normalize_identifiers(found[0], dialect=dialect), dialect=dialect)
        return str(tree.sql(dialect=dialect, identify=True, comments=False))
    except SqlglotError:
        return None
    except RecursionError:
        raise ValueError("cannot compare a statement that is nested so deeply") from None
