"""The decoder of a source and the encoder of a sink, by the format that stands beside them."""

from __future__ import annotations

from headrace.connectors.formats.contract import BytesEncoder, Decoder
from headrace.connectors.formats.json_decode import JsonDecoder
from headrace.connectors.formats.json_encode import JsonEncoder
from headrace.core.pipeline.formats import JsonOptions
from headrace.core.plan import nodes
from headrace.core.types import Field, Schema


def decoder(source: nodes.Source) -> Decoder:
    """What reads the records of a source."""
    schema = decoded(source)
    assert source.format is not None and source.format.name == "json", source.format
    options = source.format.options
    epoch = options.epoch if isinstance(options, JsonOptions) else None
    return JsonDecoder(schema, epoch)


def encoder(sink: nodes.Sink, schema: Schema) -> BytesEncoder:
    """What writes the rows of a sink."""
    assert sink.format is not None and sink.format.name == "json", sink.format
    return JsonEncoder(schema)


def decoded(source: nodes.Source) -> Schema:
    """The columns that are decoded; those that a record must have are not nullable."""
    needed = source.checked | ({source.event_time} if source.event_time else frozenset())
    fields = (source.schema.get(name) for name in source.columns)
    return Schema(tuple(Field(f.name, f.type, f.name not in needed) for f in fields if f))
