"""The `sql` lookup: a table of a SQL database, queried for many keys at once."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from typing import TYPE_CHECKING, Annotated

from pydantic import Field

from headrace.connectors.tables.file import unlike
from headrace.connectors.tables.urls import Url, url_such_as
from headrace.core.connector import Connector, LookupSide, Misfit
from headrace.core.contracts import Surroundings, Table
from headrace.core.pipeline.part import Part
from headrace.core.pipeline.text import Text
from headrace.core.pipeline.values import Words, whole
from headrace.core.plan import nodes
from headrace.core.types import Array, Schema, Struct

if TYPE_CHECKING:
    from headrace.connectors.tables.sql_table import SqlTable


class SqlOptions(Part):
    """One query looks up the keys of many rows; keys must be unique."""

    origin = ("url", "table")

    url: Annotated[Url, url_such_as("postgresql+psycopg://user:password@host/database")] = Field(
        description="The database, as SQLAlchemy writes it; `sqlite:///customers.db` is a file, "
        "relative to the pipeline's. Only its host and path are shown."
    )
    table: Words = Field(description="The table, or a view.")
    schema_: Words | None = Field(
        None, alias="schema", description="The table's schema; by default the user's."
    )
    keys_per_query: Annotated[int, whole(1, 10_000)] = Field(
        500, description="The maximum number of keys in one query."
    )


def fits(options: Part, keys: Schema, added: Schema) -> Iterator[Misfit]:
    """Yield the reasons for which a database cannot have such columns."""
    assert isinstance(options, SqlOptions)
    for field in added:
        if isinstance(field.type, Array | Struct):
            message = f'"{field.name}": a column of a database cannot be read as {field.type}'
            yield Misfit(message, None, "declare it as string, which gets its JSON")
    yield from unlike(keys, added)


def _open(lookup: nodes.Lookup, surroundings: Surroundings) -> Table:
    return _table(lookup, surroundings)


def _table(lookup: nodes.Lookup, surroundings: Surroundings) -> SqlTable:
    # Loaded when a pipeline runs: SQLAlchemy is large, and not always there.
    from headrace.connectors.tables.sql_table import SqlTable

    return SqlTable(lookup, surroundings)


def _look(lookup: nodes.Lookup, surroundings: Surroundings) -> Awaitable[str]:
    return _asked(lambda: _table(lookup, surroundings))


async def _asked(make: Callable[[], SqlTable]) -> str:
    table = make()
    try:
        await table.check()
    finally:
        await table.close()
    return f"{table.options.url}, table {shown(table.options.table)}"


def shown(text: Text) -> str:
    """Return a text with its secrets masked."""
    return text.shown


SQL = Connector(
    "sql",
    "A table of a SQL database.",
    lookup=LookupSide(SqlOptions, open=_open, look=_look, fits=fits),
)
