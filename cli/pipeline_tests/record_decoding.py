"""The bad records of a test, as the format of their source reads them."""

from __future__ import annotations

from dataclasses import replace

from headrace.connectors.formats.factories import build_decoder
from headrace.core.api.sources import BadRecord
from headrace.core.pipeline.text import Text
from headrace.core.plan import nodes

SELF_CONTAINED = ("json", "raw", "debezium_json")
"""The formats whose records need no header to be read."""


def decode_bad_record(source: nodes.Source, record: Text) -> BadRecord | None:
    """Return the error of a record; None: the source can read it."""
    format = source.format
    if format is None or format.name not in SELF_CONTAINED:
        return BadRecord("the record cannot be read", None, record.reveal())
    whole = tuple(field.name for field in source.schema)
    decoder = build_decoder(replace(source, decoded_columns=whole))
    _, bad = decoder.decode(record.encode() + b"\n", 0)
    return replace(bad[0], position=None) if bad else None
