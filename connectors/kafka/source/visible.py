"""Filter of visible batches in a fetch response: no control batches, no aborted transactions.

A broker answers a `read_committed` fetch with all batches before the first open transaction, and
a list of aborted transactions: the producer and the first offset of each. From that offset on,
batches of the producer are hidden, up to the control batch that ends its transaction; Java's client
does the same. Control batches are hidden from all readers.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from headrace.connectors.kafka.source.batches import FetchedBatch

AbortedTransactions = Iterable[tuple[int, int]]
"""The aborted transactions in a response: the producer's id and the first offset."""


def filter_visible(
    found: Sequence[FetchedBatch], aborted: AbortedTransactions | None
) -> list[FetchedBatch]:
    """Return the visible batches; `aborted` is None for readers of uncommitted records."""
    to_come = sorted(aborted or (), key=lambda each: each[1], reverse=True)
    hidden: set[int] = set()
    shown = []
    for batch in found:
        while to_come and to_come[-1][1] < batch.next_offset:
            hidden.add(to_come.pop()[0])
        if batch.is_control:
            if batch.producer_id in hidden and batch.is_abort:
                hidden.discard(batch.producer_id)
        elif batch.record_count and not (batch.is_transactional and batch.producer_id in hidden):
            shown.append(batch)
    return shown
