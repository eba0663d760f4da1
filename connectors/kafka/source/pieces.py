"""Topics as batch splits, which a batch reads in parallel: ranges of offsets of partitions.

The start and end of each partition are requested once, when the batch starts, and large partitions
are divided, so that all tasks have work.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from headrace.connectors.kafka.source.chunks import Maker
from headrace.connectors.kafka.source.places import Place, place_at
from headrace.connectors.kafka.source.source import Topics
from headrace.connectors.kafka.source_options import KafkaSource
from headrace.core.contracts import Chunk, Piece, Surroundings
from headrace.core.messages import Split

LEAST, MOST = 1 << 16, 1 << 20
"""The minimum and maximum number of records in a batch split."""
RECORD_BYTES = 200


@dataclass(frozen=True, slots=True)
class TopicPieces:
    """The batch reader of topics."""

    name: str
    options: KafkaSource
    surroundings: Surroundings
    maker: Maker
    least: int = LEAST

    async def pieces(self, many: int) -> Sequence[Piece]:
        """Divide the partitions, up to where reading stops, into batch splits."""
        topics = self._topics()
        try:
            splits = await topics.discover(first=True)
        finally:
            await topics.close()
        total = sum(_stop(place_at(split.start)) - place_at(split.start).offset for split in splits)
        step = min(max(total // many, self.least), MOST)
        return [piece for split in splits for piece in self._of(split, step)]

    def _topics(self) -> Topics:
        return Topics(self.name, self.options, self.surroundings, self.maker)

    def _of(self, split: Split, step: int) -> Iterator[Piece]:
        """Yield the batch splits of a partition; only one, if missing records may be skipped."""
        start = place_at(split.start)
        stop = _stop(start)
        if self.options.on_missing_offset == "latest":
            step = max(stop - start.offset, 1)
        for first in range(start.offset, stop, step):
            place = Place(first, stop=min(first + step, stop))
            yield Piece(split, place, (_stop(place) - first) * RECORD_BYTES)

    def read(self, piece: Piece) -> Iterator[tuple[int, Chunk]]:
        """Yield the chunks of a batch split, each with its first offset within the split."""
        assert isinstance(piece.at, Place)
        first, at = place_at(piece.split.start).offset, piece.at.offset
        with asyncio.Runner() as runner:
            topics = self._topics()
            reading = topics.reading()
            try:
                reading.assign([(piece.split, piece.at.position)], last=True)
                while (arrival := runner.run(reading.next())) is not None:
                    if isinstance(arrival, Chunk):
                        yield at - first, arrival
                        at = place_at(arrival.position).offset
            finally:
                runner.run(reading.close())
                runner.run(topics.close())


def _stop(place: Place) -> int:
    assert place.stop is not None, "an endless source is refused before"
    return place.stop
