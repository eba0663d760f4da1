"""Kafka topics as a source: discovery, fetching, unpacking and decoding."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from headrace.connectors.formats import decoder
from headrace.connectors.formats.opening import decoded
from headrace.connectors.kafka.source.beside import Beside
from headrace.connectors.kafka.source.chunks import Maker
from headrace.connectors.kafka.source.values import Raw, ValuesReader, csv_lines, json_lines
from headrace.connectors.kafka.source_options import KafkaSource
from headrace.core.contracts import PieceReader, Source, Surroundings
from headrace.core.plan import nodes

if TYPE_CHECKING:
    from headrace.connectors.formats.csv_decode import CsvDecoder


def open_source(source: nodes.Source, surroundings: Surroundings) -> Source:
    """Build the source that the plan describes."""
    # Imports aiokafka, which is not needed merely to validate a pipeline.
    from headrace.connectors.kafka.source.source import Topics

    options = source.options
    assert isinstance(options, KafkaSource)
    return Topics(source.name, options, surroundings, maker(source))


def open_pieces(source: nodes.Source, surroundings: Surroundings) -> PieceReader:
    """Build the batch reader of the source that the plan describes."""
    from headrace.connectors.kafka.source.pieces import TopicPieces

    options = source.options
    assert isinstance(options, KafkaSource)
    return TopicPieces(source.name, options, surroundings, maker(source))


def maker(source: nodes.Source) -> Maker:
    """Build the chunk maker of a source: rows of record values, and columns of metadata."""
    options = source.options
    assert isinstance(options, KafkaSource)
    named = {kind: str(name) for kind, name in options.metadata.columns.items()}
    metadata = {kind: name for kind, name in named.items() if name in source.columns}
    of_values = tuple(name for name in source.columns if name not in named.values())
    values = values_reader(replace(source, columns=of_values), tuple(named.values()))
    return Maker(values, Beside(metadata), source.columns)


def values_reader(source: nodes.Source, metadata: tuple[str, ...] = ()) -> ValuesReader:
    """Build the reader of values in the source's format; `metadata` names other columns."""
    match source.format.name if source.format else "json":
        case "raw":
            return Raw(decoded(source))
        case "csv":
            names = tuple(name for name in source.schema.names if name not in metadata)
            of_csv: CsvDecoder = decoder(source)  # type: ignore[assignment]
            return csv_lines(replace(of_csv, names=names), of_csv.shape)
    return json_lines(decoder(source))
