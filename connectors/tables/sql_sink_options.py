"""The options of `sql:` as a sink in the pipeline document, and what it cannot write."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated

from headrace.connectors.tables.urls import Url, make_url_reading
from headrace.core.pipeline.connector_spec import (
    ColumnOption,
    ConnectorMismatch,
    SinkInput,
    find_key_mismatches,
)
from headrace.core.pipeline.document_model import DocumentModel, Field
from headrace.core.pipeline.fields import ColumnNames
from headrace.core.pipeline.text import Text
from headrace.core.pipeline.values import SCALAR_SCHEMA, Flag, InvalidScalar, ScalarReading
from headrace.core.types.data_types import Type, is_nested
from headrace.core.types.stream_kinds import Upsert

POSTGRESQL = "postgresql"


def _parse_name(text: Text) -> Text:
    if not text or "\0" in text:
        raise InvalidScalar
    return text


table_reading = ScalarReading("the name of a table", _parse_name, SCALAR_SCHEMA)
schema_reading = ScalarReading("the name of a schema", _parse_name, SCALAR_SCHEMA)


class SqlSink(DocumentModel):
    """Rows are inserted into a table of PostgreSQL, or replace and delete rows by key."""

    origin = ("url", "table")

    url: Annotated[Url, make_url_reading("postgresql://user:password@host/database")] = Field(
        description="The database, which is a PostgreSQL. Only its host and path are shown."
    )
    table: Annotated[Text, table_reading] = Field(description="The table.")
    schema_: Annotated[Text | None, schema_reading] = Field(
        None, alias="schema", description="The table's schema; by default the user's."
    )
    key: ColumnNames | None = Field(
        None,
        description="The column, or columns, by which a row replaces an earlier one. For a stream "
        "of changes it is the stream's key, and may be left out; by default, rows of other streams "
        "are inserted. The table has a unique index on it.",
    )
    create: Flag = Field(False, description="Create the table if it is missing.")


def _find_key_objection(type: Type) -> tuple[str, str]:
    if is_nested(type):
        return "is not a single value", "extract what identifies the row in a step before"
    return "", ""


KEY_OPTION = ColumnOption("key", _find_key_objection)


def get_upsert_key(options: DocumentModel) -> tuple[str, ...]:
    """Return the columns by which the rows of an append-only stream replace each other."""
    assert isinstance(options, SqlSink)
    return tuple(str(name) for name in options.key or ())


def find_sink_mismatches(
    options: DocumentModel, outgoing: SinkInput
) -> Iterator[ConnectorMismatch]:
    """Yield the reasons for which the rows cannot be written."""
    assert isinstance(options, SqlSink)
    dialect = options.url.reveal().partition("://")[0].partition("+")[0].lower()
    if dialect != POSTGRESQL:
        message = f"the sql sink writes PostgreSQL only, and this is {dialect}"
        yield ConnectorMismatch(message, options.url.location, "postgresql://user@host/database")
    if isinstance(outgoing.kind, Upsert):
        yield from find_key_mismatches(options.key or (), outgoing.kind, outgoing.schema.names)
