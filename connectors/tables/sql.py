"""The `sql` connector: a table of a SQL database, as a lookup table or as a sink."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from headrace.connectors.tables.file import find_type_conflicts
from headrace.connectors.tables.sql_options import SqlOptions
from headrace.connectors.tables.sql_sink_options import (
    KEY_OPTION,
    SqlSink,
    find_sink_mismatches,
    get_upsert_key,
)
from headrace.core.api.coordinator_link import CoordinatorLink
from headrace.core.api.lookup_tables import LookupTable
from headrace.core.api.run_context import RunContext
from headrace.core.api.sinks import SinkCoordinator, WriterFactory
from headrace.core.api.splits import Handle
from headrace.core.pipeline.connector_spec import ConnectorMismatch
from headrace.core.pipeline.document_model import DocumentModel
from headrace.core.pipeline.text import Text
from headrace.core.plan import nodes
from headrace.core.plan.connector import Connector, LookupSide, SinkSide
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


def _open_sink(sink: nodes.Sink, schema: Schema, run_context: RunContext) -> SinkCoordinator:
    from headrace.connectors.tables.sql_sink import build_sink

    return build_sink(sink, schema, run_context)


def _open_writers(
    sink: nodes.Sink, schema: Schema, run_context: RunContext, link: CoordinatorLink
) -> WriterFactory:
    from headrace.connectors.tables.sql_writer import build_writers

    return build_writers(sink, schema, run_context, link)


async def _describe_sink(sink: nodes.Sink, schema: Schema, run_context: RunContext) -> str:
    from headrace.connectors.tables.sql_sink import describe_sink

    return await describe_sink(sink, schema, run_context)


def _check_handle(handle: Handle) -> None:
    from headrace.connectors.tables.sql_staging import parse_handle

    parse_handle(handle)


def _merge_handles(handles: Sequence[Handle]) -> Sequence[Handle]:
    from headrace.connectors.tables.sql_staging import merge_handles

    return merge_handles(handles)


SQL = Connector(
    "sql",
    "A table of a SQL database.",
    sink=SinkSide(
        SqlSink,
        column_options=(KEY_OPTION,),
        find_mismatches=find_sink_mismatches,
        get_upsert_key=get_upsert_key,
        open=_open_sink,
        open_writers=_open_writers,
        describe_external=_describe_sink,
        check_handle=_check_handle,
        merge_handles=_merge_handles,
    ),
    lookup=LookupSide(
        SqlOptions,
        open=_open_table,
        describe_external=_describe_table,
        find_mismatches=find_mismatches,
    ),
)
