"""Transactions, and lookups by ids that agents make up.

Such ids are random as a rule. An entry of a random id belongs anywhere in an index, so that with many turns each new
one changes a page of its own. The indexes of conversations and tasks therefore begin with the part of the table: 2,048
turns in the order in which they were added. New entries change the few pages of the newest part. A lookup takes one
step for each part: some 5 ms among 500,000 turns. Of an id, an index has the last eight characters.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager, suppress


@contextmanager
def transaction(connection: sqlite3.Connection) -> Iterator[None]:
    """Run the block under SQLite's write lock and commit it. An exception undoes the block."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        with suppress(sqlite3.Error):  # an error may have ended the transaction
            connection.execute("ROLLBACK")
        raise


def found_by(column: str) -> str:
    """Selects the `seq` of the turns whose `conversation_id` or `task_id` equals the parameter of that name."""
    of_index = " AND task_id != ''" if column == "task_id" else ""  # a partial index serves queries with its condition
    equal = f"+{column} = :{column}"  # without the plus, SQLite would put the constant into the indexed expression
    return (
        "WITH RECURSIVE part (number) AS (SELECT min(seq) >> 11 FROM turns UNION ALL"  # noqa: S608  # fixed texts
        " SELECT number + 1 FROM part WHERE number < (SELECT max(seq) >> 11 FROM turns))"
        " SELECT seq FROM part CROSS JOIN turns WHERE seq >> 11 = number"
        f" AND substr({column}, -8) = substr(:{column}, -8) AND {equal}{of_index}"
    )
