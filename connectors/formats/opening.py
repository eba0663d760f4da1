"""The decoder of a source and the encoder of a sink, by the format that stands beside them.

A format is loaded when it is asked for: a run has use for one or two.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.connectors.formats.contract import BytesEncoder, Decoder
from headrace.core.contracts import ConnectorError
from headrace.core.pipeline.formats import JsonOptions
from headrace.core.plan import nodes
from headrace.core.types import Field, Schema

if TYPE_CHECKING:
    from headrace.connectors.formats.parquet_read import ParquetReader
    from headrace.connectors.formats.parquet_write import ParquetEncoder


def decoder(source: nodes.Source) -> Decoder:
    """What reads the records of a source; Parquet has none that stand for themselves."""
    schema = decoded(source)
    format = source.format or nodes.Format("json", None)
    match format.name:
        case "json":
            from headrace.connectors.formats.json_decode import JsonDecoder

            options = format.options
            return JsonDecoder(schema, options.epoch if isinstance(options, JsonOptions) else None)
        case "csv":
            from headrace.connectors.formats.csv_decode import CsvDecoder
            from headrace.connectors.formats.csv_options import dialect

            habits = dialect(format.options)
            names = () if habits.has_header else source.schema.names
            return CsvDecoder(schema, source.schema, names, habits.shape, habits.null.encode())
        case "raw":
            from headrace.connectors.formats.raw import RawDecoder

            return RawDecoder(schema)
    raise _unknown(source.name, format)


def encoder(sink: nodes.Sink, schema: Schema) -> BytesEncoder:
    """What writes the rows of a sink; Parquet's is of another kind."""
    format = sink.format or nodes.Format("json", None)
    match format.name:
        case "json":
            from headrace.connectors.formats.json_encode import JsonEncoder

            return JsonEncoder(schema)
        case "csv":
            from headrace.connectors.formats.csv_encode import CsvEncoder
            from headrace.connectors.formats.csv_options import dialect

            habits = dialect(format.options)
            return CsvEncoder(schema, habits.has_header, habits.shape, habits.null)
        case "raw":
            from headrace.connectors.formats.raw import RawEncoder

            return RawEncoder(schema)
    raise _unknown(sink.name, format)


def parquet_reader(source: nodes.Source) -> ParquetReader:
    """What reads the rows of a source whose files are Parquet."""
    from headrace.connectors.formats.parquet_read import ParquetReader

    return ParquetReader(decoded(source), source.schema)


def parquet_encoder(schema: Schema) -> ParquetEncoder:
    """What writes files of Parquet."""
    from headrace.connectors.formats.parquet_write import ParquetEncoder

    return ParquetEncoder(schema)


def decoded(source: nodes.Source) -> Schema:
    """The columns that are decoded; those that a record must have are not nullable."""
    needed = source.checked | ({source.event_time} if source.event_time else frozenset())
    fields = (source.schema.get(name) for name in source.columns)
    return Schema(tuple(Field(f.name, f.type, f.name not in needed) for f in fields if f))


def _unknown(name: str, format: nodes.Format) -> ConnectorError:
    return ConnectorError(f'"{name}" cannot carry {format}', exit_status=2)
