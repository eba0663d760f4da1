"""Topics as batch splits, which a batch reads in parallel: ranges of offsets of partitions.

The start and end of each partition are requested once, when the batch starts, and large partitions
are divided, so that all tasks have work.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence

from headrace.connectors.kafka.source.chunk_maker import ChunkMaker
from headrace.connectors.kafka.source.positions import PartitionPosition, parse_position
from headrace.connectors.kafka.source.readers import TopicReaders
from headrace.connectors.kafka.source.source import TopicSource
from headrace.connectors.kafka.source_options import KafkaSource
from headrace.core.api.coordinator_link import CoordinatorLink
from headrace.core.api.run_context import RunContext
from headrace.core.api.sources import BatchSplit, Chunk
from headrace.core.api.splits import Split
from headrace.core.types.lazy_dataclass import dataclass

MIN_SPLIT_RECORDS, MAX_SPLIT_RECORDS = 1 << 16, 1 << 20
"""The minimum and maximum number of records in a batch split."""
RECORD_BYTES = 200


@dataclass(frozen=True, slots=True)
class TopicBatchReader:
    """The batch reader of topics."""

    name: str
    options: KafkaSource
    run_context: RunContext
    chunk_maker: ChunkMaker
    min_records: int = MIN_SPLIT_RECORDS

    async def plan_splits(self, many: int) -> Sequence[BatchSplit]:
        """Divide the partitions, up to where reading stops, into batch splits."""
        topics = TopicSource(self.name, self.options, self.run_context)
        try:
            splits = await topics.discover_splits(first=True)
        finally:
            await topics.close()
        total = sum(
            _get_stop(parse_position(split.start_position))
            - parse_position(split.start_position).offset
            for split in splits
        )
        step = min(max(total // many, self.min_records), MAX_SPLIT_RECORDS)
        return [piece for split in splits for piece in self._divide_partition(split, step)]

    def _divide_partition(self, split: Split, step: int) -> Iterator[BatchSplit]:
        """Yield the batch splits of a partition; only one, if missing records may be skipped."""
        start = parse_position(split.start_position)
        stop = _get_stop(start)
        if self.options.on_missing_offset == "latest":
            step = max(stop - start.offset, 1)
        for first in range(start.offset, stop, step):
            place = PartitionPosition(first, stop=min(first + step, stop))
            yield BatchSplit(split, place, (_get_stop(place) - first) * RECORD_BYTES)

    def read(self, piece: BatchSplit) -> Iterator[tuple[int, Chunk]]:
        """Yield the chunks of a batch split, each with its first offset within the split."""
        assert isinstance(piece.record_range, PartitionPosition)
        first, at = parse_position(piece.split.start_position).offset, piece.record_range.offset
        with asyncio.Runner() as runner:
            topics = TopicSource(self.name, self.options, self.run_context)
            link = CoordinatorLink(topics.answer)
            readers = TopicReaders(
                self.name, self.options, self.run_context, self.chunk_maker, link
            )
            reading = readers.create_reader()
            try:
                reading.assign([(piece.split, piece.record_range.stored_form)], last=True)
                while (arrival := runner.run(reading.fetch())) is not None:
                    if isinstance(arrival, Chunk):
                        yield at - first, arrival
                        at = parse_position(arrival.position).offset
            finally:
                runner.run(reading.close())
                runner.run(readers.close())
                runner.run(topics.close())


def _get_stop(place: PartitionPosition) -> int:
    assert place.stop is not None, "an endless source is refused before"
    return place.stop
