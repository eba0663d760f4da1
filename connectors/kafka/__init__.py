"""The `kafka` connector: topics of Apache Kafka as sources and sinks."""

from __future__ import annotations

from headrace.connectors.kafka.fitting import (
    BESIDE,
    COLUMN_OPTIONS,
    EXPRESSIONS,
    fits,
    in_records,
)
from headrace.connectors.kafka.sink_options import KafkaSink
from headrace.connectors.kafka.source_options import KafkaSource
from headrace.core.connector import Connector, SinkSide, SourceSide
from headrace.core.contracts import PieceReader, Sink, Source, Surroundings
from headrace.core.pipeline.part import Part
from headrace.core.plan import nodes
from headrace.core.types import Schema

FORMATS = ("json", "csv", "raw")


def _source(source: nodes.Source, surroundings: Surroundings) -> Source:
    # Loaded when a pipeline runs, so that help and completion stay fast.
    from headrace.connectors.kafka.source import open_source

    return open_source(source, surroundings)


def _pieces(source: nodes.Source, surroundings: Surroundings) -> PieceReader:
    from headrace.connectors.kafka.source import open_pieces

    return open_pieces(source, surroundings)


def _sink(sink: nodes.Sink, schema: Schema, surroundings: Surroundings) -> Sink:
    from headrace.connectors.kafka.sink import open_sink

    return open_sink(sink, schema, surroundings)


async def _source_there(source: nodes.Source, surroundings: Surroundings) -> str:
    from headrace.connectors.kafka.looking import source_there

    return await source_there(source, surroundings)


async def _sink_there(sink: nodes.Sink, schema: Schema, surroundings: Surroundings) -> str:
    from headrace.connectors.kafka.looking import sink_there

    return await sink_there(sink, schema, surroundings)


def _bounded(options: Part) -> bool:
    assert isinstance(options, KafkaSource)
    return options.stop is not None


KAFKA = Connector(
    "kafka",
    "Topics of Apache Kafka.",
    source=SourceSide(
        KafkaSource,
        FORMATS,
        beside=BESIDE,
        open=_source,
        pieces=_pieces,
        bounded=_bounded,
        to_end="add stop: latest",
        look=_source_there,
    ),
    sink=SinkSide(
        KafkaSink,
        FORMATS,
        expressions=EXPRESSIONS,
        column_options=COLUMN_OPTIONS,
        records=in_records,
        fits=fits,
        open=_sink,
        look=_sink_there,
        counts_writers=True,
    ),
)
