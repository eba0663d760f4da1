"""The records of batches as lists, a list for each thing that is wanted of them.

The compiled decoder of aiokafka makes the records; what is done here for each of them is one pass
of a comprehension, which is most of what it costs. Offsets are counted, not looked at, where a
batch has a record at each.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from headrace.connectors.kafka.source.batches import Batch
from headrace.connectors.kafka.source.places import Seen

Headers = Sequence["tuple[str, bytes | None]"]


@dataclass(slots=True)
class Records:
    """Some records of a partition, in order. The lists of what was not wanted are empty."""

    values: list[bytes | None] = field(default_factory=list)
    offsets: list[range | list[int]] = field(default_factory=list)
    """Of each batch."""
    timestamps: list[int] = field(default_factory=list)
    keys: list[bytes | None] = field(default_factory=list)
    headers: list[Headers] = field(default_factory=list)
    last: Seen | None = None
    next_offset: int = 0
    """Behind the last batch, or behind the last record where enough were taken."""

    def offset(self, row: int) -> int:
        """The offset of a record, by its number."""
        for offsets in self.offsets:
            if row < len(offsets):
                return offsets[row]
            row -= len(offsets)
        raise IndexError(row)


@dataclass(frozen=True, slots=True)
class Unpacking:
    """What is wanted of records beside their values."""

    timestamps: bool = False
    keys: bool = False
    headers: bool = False

    def unpack(
        self, found: Iterable[Batch], first: int, before: int | None, most: int | None = None
    ) -> Records:
        """The records from one offset up to another, and no more than are wanted.

        Raises Damaged. It may work in any thread.
        """
        records = Records(next_offset=first)
        for batch in found:
            within = first <= batch.base_offset and (before is None or batch.next_offset <= before)
            fits = most is None or len(records.values) + batch.count <= most
            if within and fits and batch.is_dense and self == VALUES:
                _add_values(records, batch)
                records.next_offset = batch.next_offset
            else:
                left = None if most is None else most - len(records.values)
                records.next_offset = self._add(records, batch, first, before, left)
            if before is not None and records.next_offset >= before:
                records.next_offset = before
                break
            if most is not None and len(records.values) >= most:
                break
        return records

    def _add(
        self, to: Records, batch: Batch, first: int, before: int | None, most: int | None
    ) -> int:
        """Add the records of a batch one by one; where to go on."""
        # Each goes into lists at once: a list of records would be looked through by Python's
        # collector over and over, which takes three times as long as all the rest.
        offsets: list[int] = []
        for record in batch.opened():
            offset = record.offset
            if offset < first or (before is not None and offset >= before):
                continue
            offsets.append(offset)
            to.values.append(record.value)
            if self.timestamps:
                to.timestamps.append(record.timestamp or 0)
            if self.keys:
                to.keys.append(record.key)
            if self.headers:
                to.headers.append(record.headers)
            last = record
            if len(offsets) == most:
                break
        if offsets:
            to.last = Seen(last.offset, last.timestamp or 0)
        dense = batch.is_dense and len(offsets) == batch.count
        to.offsets.append(range(batch.base_offset, batch.next_offset) if dense else offsets)
        return offsets[-1] + 1 if len(offsets) == most else batch.next_offset


VALUES = Unpacking()


def _add_values(to: Records, batch: Batch) -> None:
    to.values += [(last := record).value for record in batch.opened()]
    to.offsets.append(range(batch.base_offset, batch.next_offset))
    to.last = Seen(last.offset, last.timestamp or 0)
