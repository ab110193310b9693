"""Where the statements of SQLite and PostgreSQL differ: the one place. Every other statement is written once, with
parameters `:name`."""

from __future__ import annotations

from dataclasses import dataclass

PREFIX = 128
"""Characters of a text that PostgreSQL indexes: it limits the size of an entry, and agents make up ids of any size."""


@dataclass(frozen=True, slots=True)
class SqlDialect:
    """What stands in a statement for one of the two databases. `{}` is a column, a value or a parameter."""

    number: str
    """Type of a primary key that ascends in the order in which rows are added."""
    now: str
    """Seconds since the epoch, by the database's clock."""
    indexed: str
    """What of a text is indexed."""
    equal: str
    """The condition that two texts, the first of which is indexed, are equal."""
    matches: str
    """The condition that a column matches a pattern with `!` as its escape, whatever the case of ASCII letters."""
    among: str
    """The condition that a column has one of the selected values."""
    listed: str
    """Selects the texts of a JSON list."""
    joined: str
    """The aggregate that concatenates texts."""
    calls: str
    """The number of tool calls in the body of a turn."""
    card: str
    """`agent_card` in the body of a turn, as JSON text."""
    append_lock: str | None
    """Taken by who adds turns, so that they become visible in the order of their numbers: a page that ends with a turn
    would else hide an earlier one that was committed later."""
    used: str
    """Selects how many bytes the store takes."""

    def same(self, column: str, value: str) -> str:
        """The condition that an indexed column has this value."""
        return self.equal.format(column, value)

    def has(self, column: str) -> str:
        """The condition that an indexed column equals the parameter of its name."""
        return self.same(column, f":{column}")

    def like(self, column: str, parameter: str) -> str:
        """The condition that a column matches the pattern of a parameter."""
        return self.matches.format(column, f":{parameter}")

    def one_of(self, column: str, parameter: str) -> str:
        """The condition that a column has one of the texts of a JSON list."""
        return self.among.format(column, self.listed.format(f":{parameter}"))


SQLITE = SqlDialect(
    number="INTEGER",
    now="unixepoch()",
    indexed="{}",
    equal="{} = {}",
    matches="{} LIKE {} ESCAPE '!'",
    among="+{} IN ({})",  # the plus keeps the order of `seq`: by an index, the turns would have to be sorted
    listed="SELECT value FROM json_each({})",
    joined="group_concat",
    calls="json_array_length(body, '$.tool_calls')",
    card="json_extract(body, '$.agent_card')",
    append_lock=None,
    used="SELECT (page_count - freelist_count) * page_size"
    " FROM pragma_page_count, pragma_freelist_count, pragma_page_size",
)

_BODY = r"replace(body, '\u0000', '\ufffd')::json"
"""PostgreSQL reads nothing in JSON with U+0000."""

POSTGRES = SqlDialect(
    number="BIGINT GENERATED ALWAYS AS IDENTITY",
    now="extract(epoch FROM clock_timestamp())::float8",
    indexed=f"left({{}}, {PREFIX})",
    equal=f"(left({{0}}, {PREFIX}) = left({{1}}, {PREFIX}) AND {{0}} = {{1}})",
    matches="{} COLLATE \"C\" ILIKE {} ESCAPE '!'",  # the collation makes it quick
    among="{} IN ({})",
    listed="SELECT json_array_elements_text(CAST({} AS json))",
    joined="string_agg",
    calls=f"json_array_length({_BODY} -> 'tool_calls')",
    card=f"{_BODY} ->> 'agent_card'",
    append_lock="SELECT pg_advisory_xact_lock(7003688416812600321)",
    used="SELECT coalesce(sum(size), 0) FROM turns",
)
