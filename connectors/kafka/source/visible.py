"""Which batches of a fetch answer a reader is to see: no marks, and nothing that was aborted.

A broker answers a `read_committed` fetch with all that stands before the first open transaction,
and beside it the transactions that were aborted: by producer, and by the first offset. From there
on, batches of that producer are hidden, up to the mark that ends its transaction. That is what
Java's client does. Marks of transactions are hidden from everybody.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from headrace.connectors.kafka.source.batches import Batch

Aborted = Iterable[tuple[int, int]]
"""The aborted transactions in an answer: the producer's id, and the first offset."""


def visible(found: Sequence[Batch], aborted: Aborted | None) -> list[Batch]:
    """Those whose records are to be given; `aborted` is None for who reads uncommitted."""
    to_come = sorted(aborted or (), key=lambda each: each[1], reverse=True)
    hidden: set[int] = set()
    shown = []
    for batch in found:
        while to_come and to_come[-1][1] < batch.next_offset:
            hidden.add(to_come.pop()[0])
        if batch.is_control:
            if batch.producer_id in hidden and batch.is_abort:
                hidden.discard(batch.producer_id)
        elif batch.count and not (batch.is_transactional and batch.producer_id in hidden):
            shown.append(batch)
    return shown
