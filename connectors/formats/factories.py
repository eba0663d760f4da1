"""Factories of a source's decoder and a sink's encoder, by their format.

A format is loaded on first use: a run needs one or two of them.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from headrace.connectors.formats.contract import BytesEncoder, Decoder
from headrace.connectors.formats.csv_syntax import CsvSyntax
from headrace.core.api.failures import ConnectorError
from headrace.core.expressions.typed import ColumnReference, Constant, FunctionCall, walk
from headrace.core.pipeline.document_model import DocumentModel
from headrace.core.pipeline.formats import (
    CsvOptions,
    DebeziumOptions,
    JsonOptions,
    ParquetOptions,
)
from headrace.core.plan import nodes
from headrace.core.types.data_types import Field, Schema, Struct
from headrace.core.types.lazy_dataclass import dataclass

if TYPE_CHECKING:
    from headrace.connectors.formats.debezium import DebeziumDecoder
    from headrace.connectors.formats.parquet_read import ParquetReader
    from headrace.connectors.formats.parquet_write import ParquetEncoder


def build_decoder(source: nodes.Source) -> Decoder:
    """Build the decoder of a source's records; Parquet has no self-contained records."""
    schema = add_change_columns(source, list_decoded_columns(source))
    format = source.format or nodes.Format("json", None)
    match format.name:
        case "json":
            from headrace.connectors.formats.json_decode import JsonDecoder

            options = format.options
            return JsonDecoder(schema, options.epoch if isinstance(options, JsonOptions) else None)
        case "csv":
            from headrace.connectors.formats.csv_decode import CsvDecoder

            dialect = build_dialect(format.options)
            names = () if dialect.has_header else source.schema.names
            null = dialect.null.encode()
            is_union = dialect.is_union
            return CsvDecoder(schema, source.schema, names, dialect.syntax, null, is_union)
        case "debezium_json":
            return build_debezium_decoder(source)
        case "raw":
            from headrace.connectors.formats.raw import RawDecoder

            return RawDecoder(schema)
    raise _build_format_error(source.name, format)


def build_debezium_decoder(source: nodes.Source) -> DebeziumDecoder:
    """Build the decoder of Debezium's messages."""
    from headrace.connectors.formats.debezium import DebeziumDecoder

    options = source.format.options if source.format else None
    given = options if isinstance(options, DebeziumOptions) else DebeziumOptions()
    assert source.table is not None, "the plan checked it"
    columns = list_decoded_columns(source)
    metadata = (field for field in columns if field.name in source.table.metadata)
    return DebeziumDecoder(
        source.table.remove_metadata(columns),
        Schema(tuple(_narrow_struct(field, source) for field in metadata)),
        source.table.key,
        given.epoch,
        given.decimals,
    )


def _narrow_struct(field: Field, source: nodes.Source) -> Field:
    """Return a column with those fields of its struct that the times of a source read."""
    if not isinstance(field.type, Struct):
        return field
    read: set[str] = set()
    for node in (node for column in source.times for node in walk(column.value)):
        match node:
            case FunctionCall(function=".", arguments=(ColumnReference(name=name), Constant())):
                if name == field.name:
                    read.add(str(node.arguments[1].value))  # type: ignore[attr-defined]
    return replace(field, type=Struct(tuple(f for f in field.type.fields if f.name in read)))


def build_encoder(sink: nodes.Sink, schema: Schema) -> BytesEncoder:
    """Build the encoder of a sink's rows; Parquet has an encoder of files instead."""
    format = sink.format or nodes.Format("json", None)
    match format.name:
        case "json":
            from headrace.connectors.formats.json_encode import JsonEncoder

            return JsonEncoder(schema)
        case "csv":
            from headrace.connectors.formats.csv_encode import CsvEncoder

            dialect = build_dialect(format.options)
            return CsvEncoder(schema, dialect.has_header, dialect.syntax, dialect.null)
        case "raw":
            from headrace.connectors.formats.raw import RawEncoder

            return RawEncoder(schema)
    raise _build_format_error(sink.name, format)


def build_parquet_reader(source: nodes.Source) -> ParquetReader:
    """Build the reader of a source's Parquet files."""
    from headrace.connectors.formats.parquet_read import ParquetReader

    schema = add_change_columns(source, list_decoded_columns(source))
    options = source.format.options if source.format else None
    is_union = isinstance(options, ParquetOptions) and options.union_by_name
    return ParquetReader(schema, source.schema, is_union)


def build_parquet_encoder(schema: Schema) -> ParquetEncoder:
    """Build the encoder of Parquet files."""
    from headrace.connectors.formats.parquet_write import ParquetEncoder

    return ParquetEncoder(schema)


def list_decoded_columns(source: nodes.Source) -> Schema:
    """Return the columns to decode; those required in each record are not nullable.

    The deletions of a table require the key only.
    """
    needed = source.not_null_columns | ({source.event_time} if source.event_time else frozenset())
    if source.table is not None:
        needed = frozenset(source.table.key)
    fields = (source.schema.get(name) for name in source.decoded_columns)
    return Schema(tuple(Field(f.name, f.type, f.name not in needed) for f in fields if f))


def add_change_columns(source: nodes.Source, columns: Schema) -> Schema:
    """Add the columns that say what a record of a table does, which a record may lack."""
    if source.table is None:
        return columns
    added = (Field(n, t) for n, t in nodes.CHANGE_COLUMNS.items() if n not in columns)
    return Schema((*columns, *added))


def _build_format_error(name: str, format: nodes.Format) -> ConnectorError:
    return ConnectorError(f'"{name}" cannot carry {format}', exit_status=2)


@dataclass(frozen=True, slots=True)
class CsvDialect:
    """A CSV dialect; `null` is the unquoted text that means null. In a union, files may lack
    columns."""

    has_header: bool
    syntax: CsvSyntax
    null: str
    is_union: bool = False


def build_dialect(options: DocumentModel | None) -> CsvDialect:
    """Return the dialect of the options."""
    csv_options = options if isinstance(options, CsvOptions) else CsvOptions()
    delimiter, quote, null = (
        text.reveal() for text in (csv_options.delimiter, csv_options.quote, csv_options.null)
    )
    syntax = CsvSyntax(delimiter.encode(), quote.encode())
    return CsvDialect(csv_options.header, syntax, null, csv_options.union_by_name)
