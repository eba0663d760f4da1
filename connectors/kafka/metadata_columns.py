"""Columns of Kafka records besides their value.

They are topic, partition, offset, timestamp, key and headers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from headrace.connectors.kafka.source_options import KafkaSource
from headrace.core.pipeline.connector_spec import ExtraColumnsOption
from headrace.core.pipeline.document_model import DocumentModel
from headrace.core.pipeline.text import Text
from headrace.core.types.data_types import BIGINT, INT, STRING, TIMESTAMP, Array, Field, Struct

HEADERS_TYPE = Array(Struct((Field("key", STRING, nullable=False), Field("value", STRING))))


METADATA_FIELDS = {
    "topic": Field("topic", STRING, nullable=False),
    "partition": Field("partition", INT, nullable=False),
    "offset": Field("offset", BIGINT, nullable=False),
    "timestamp": Field("timestamp", TIMESTAMP, nullable=False),
    "key": Field("key", STRING),
    "headers": Field("headers", HEADERS_TYPE, nullable=False),
}


def list_metadata_columns(options: DocumentModel) -> Sequence[tuple[Text, Field]]:
    """Return the columns of a record's metadata, each with the text that names it."""
    assert isinstance(options, KafkaSource)
    named = options.metadata.requested_columns.items()
    return [(name, replace(METADATA_FIELDS[what], name=str(name))) for what, name in named]


METADATA_OPTION = ExtraColumnsOption("metadata", list_metadata_columns)
