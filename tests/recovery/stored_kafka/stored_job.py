"""The input of the stored job with topics, and its output as an independent client reads it.

Only the language of pipelines and topics are used here, as in `tests/recovery/stored/site.py`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any, TypeAlias

from tests.support.kafka.topics import Record, Topics

HERE = Path(__file__).parent
JOB = "stored"
BROKERS = "STORED_BROKERS"
"""The environment variable that the pipeline has the address from."""
INPUT = "stored-orders"
OUTPUT = {"windows": "stored-windows", "totals": "stored-totals"}
"""The topic of each sink."""
PARTITIONS = 3
ROWS = 30
"""The number of committed records of each phase."""
STEP_S = 2
BEGIN_MS = 1_767_225_600_000
"""2026-01-01T00:00:00Z, the time of the first record."""

Row: TypeAlias = "dict[str, Any]"
Rows: TypeAlias = "dict[str, list[Row]]"
"""By sink."""


def create_topics(topics: Topics) -> None:
    """Create the topics, without records."""
    topics.create(INPUT, PARTITIONS)
    for topic in OUTPUT.values():
        topics.create(topic, 2)


def delete_topics(topics: Topics) -> None:
    """Delete the topics that exist."""
    for topic in topics.names() & {INPUT, *OUTPUT.values()}:
        topics.delete(topic)


def feed(topics: Topics, phase: int) -> None:
    """Write the records of a phase: each at the same offset and with the same time, always.

    An aborted transaction comes between the halves, the second of which is a transaction, so
    offsets have gaps, and the last record of a partition is followed by a marker. A broker writes
    markers after it has answered, so they are waited for: what follows would come before them.
    """
    first, half = phase * ROWS, ROWS // 2
    topics.write(INPUT, [build_record(id) for id in range(first, first + half)])
    aborted = [build_record(-id) for id in range(first + 1, first + 1 + PARTITIONS)]
    topics.transaction(INPUT, aborted, commit=False)
    topics.settled(INPUT)
    committed = [build_record(id) for id in range(first + half, first + ROWS)]
    topics.transaction(INPUT, committed, commit=True)
    topics.settled(INPUT)


def build_record(id: int) -> Record:
    """Return the record of an order; a negative number is that of one that is aborted."""
    second = abs(id) * STEP_S
    at = f"2026-01-01T00:{second // 60:02}:{second % 60:02}Z"
    row = {"id": id, "k": "abcd"[id % 4], "price": id * 37 % 97, "at": at}
    time_ms = BEGIN_MS + second * 1000
    return Record(json.dumps(row).encode(), None, id % PARTITIONS, timestamp_ms=time_ms)


def read_output(topics: Topics, *, committed: bool = True) -> Rows:
    """Return the rows that a reader sees now, each partition in its order."""
    return {
        sink: [_parse(record) for record in topics.visible(topic, committed)]
        for sink, topic in OUTPUT.items()
    }


def _parse(record: Record) -> Row:
    assert record.value is not None
    return dict(json.loads(record.value))


def find_last_totals(rows: Iterable[Row]) -> dict[str, Row]:
    """Return the last row of each key; each must count more rows than the one before it."""
    last: dict[str, Row] = {}
    for row in rows:
        assert row["k"] not in last or last[row["k"]]["n"] < row["n"], (last, row)
        last[row["k"]] = row
    return dict(sorted(last.items()))
