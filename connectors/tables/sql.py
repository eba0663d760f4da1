"""The `sql` lookup: a table of a SQL database, queried for many keys at once."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from typing import TYPE_CHECKING

from headrace.connectors.tables.file import find_type_conflicts
from headrace.connectors.tables.sql_options import SqlOptions
from headrace.core.api.lookup_tables import LookupTable
from headrace.core.api.run_context import RunContext
from headrace.core.pipeline.connector_spec import ConnectorMismatch
from headrace.core.pipeline.document_model import DocumentModel
from headrace.core.pipeline.text import Text
from headrace.core.plan import nodes
from headrace.core.plan.connector import Connector, LookupSide
from headrace.core.types.data_types import Schema, is_nested

if TYPE_CHECKING:
    from headrace.connectors.tables.sql_table import SqlTable


def find_mismatches(
    options: DocumentModel, keys: Schema, added: Schema
) -> Iterator[ConnectorMismatch]:
    """Yield the reasons for which a database cannot have such columns."""
    assert isinstance(options, SqlOptions)
    for field in added:
        if is_nested(field.type):
            message = f'"{field.name}": a column of a database cannot be read as {field.type}'
            yield ConnectorMismatch(message, None, "declare it as string, which gets its JSON")
    yield from find_type_conflicts(keys, added)


def _open_table(lookup: nodes.Lookup, run_context: RunContext) -> LookupTable:
    return _build_table(lookup, run_context)


def _build_table(lookup: nodes.Lookup, run_context: RunContext) -> SqlTable:
    # Loaded when a pipeline runs: SQLAlchemy is large, and not always there.
    from headrace.connectors.tables.sql_table import SqlTable

    return SqlTable(lookup, run_context)


def _describe_table(lookup: nodes.Lookup, run_context: RunContext) -> Awaitable[str]:
    return _check_and_describe(lambda: _build_table(lookup, run_context))


async def _check_and_describe(make: Callable[[], SqlTable]) -> str:
    table = make()
    try:
        await table.check()
    finally:
        await table.close()
    return f"{table.options.url}, table {mask_text(table.options.table)}"


def mask_text(text: Text) -> str:
    """Return a text with its secrets masked."""
    return text.printable


SQL = Connector(
    "sql",
    "A table of a SQL database.",
    lookup=LookupSide(
        SqlOptions,
        open=_open_table,
        describe_external=_describe_table,
        find_mismatches=find_mismatches,
    ),
)
