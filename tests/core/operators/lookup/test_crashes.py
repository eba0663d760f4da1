"""Lookups through crashes, failures, stops and rescales: each row once, with its name or without.

Calls take their time, and some of them fail. Thousands more: `python -m
tests.core.operators.lookup.test_crashes 5000`.
"""

from __future__ import annotations

import random
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import polars as pl
import pytest

from headrace.connectors.memory import MemoryEvent
from headrace.connectors.memory_lookup import Key, LookupTableData
from headrace.core.api.failures import ConnectorError
from headrace.core.coordination.checkpoint_coordinator import CheckpointSchedule
from tests.support.runtime.crashing_jobs import Fate, FlakyMemory, Life, live
from tests.support.runtime.memory_pipelines import cut

NAMES = pl.DataFrame({"id": range(0, 30, 2), "name": [f"n{i}" for i in range(0, 30, 2)]})

PIPELINE = """
settings: {{parallelism: {parallelism}}}
sources:
  in:
    memory: {{data: in}}
    schema: {{n: bigint, customer: bigint, at: timestamp}}
    event_time: at
steps:
  named:
    from: in
    where: n % 7 > 0
    lookup:
      memory: {{data: names}}
      on: {{id: customer}}
      add: {{name: string}}
      on_miss: {{to: unknown}}
      timeout: 1s
      retries: 50
      concurrency: {concurrency}
      ordered: {ordered}
      {cache}
    select: {{n: n, name: name}}
  counted: {{from: named, key: name, window: {{tumble: 10s}}, aggregate: {{n: count(*)}}}}
sinks:
  named_out: {{from: named, memory: {{data: out}}}}
  unknown_out: {{from: unknown, memory: {{data: unknown}}}}
  counted_out: {{from: counted, memory: {{data: counted}}}}
"""


@pytest.mark.parametrize("seed", range(25))
def test_whatever_happens_each_row_is_emitted_once(seed: int) -> None:
    survive(random.Random(seed))


def survive(chance: random.Random) -> None:
    """Draw a lookup, its table's behaviour, and the events of the job."""
    count = chance.choice([1, 20, 100])
    instant = pl.Datetime("us", "UTC")
    times = pl.Series([n * 1_000_000 for n in range(count)]).cast(instant)
    customers = [chance.randrange(30) if chance.random() < 0.9 else None for _ in range(count)]
    schema: dict[str, pl.DataType] = {"n": pl.Int64(), "customer": pl.Int64(), "at": instant}
    frame = pl.DataFrame({"n": range(count), "customer": customers, "at": times}, schema)
    memory = FlakyMemory({"in": splits(frame, chance)}, tables={"names": shelf(chance)})
    text = PIPELINE.format(
        parallelism=chance.choice([1, 2, 3]),
        concurrency=chance.choice([1, 3, 100]),
        ordered=chance.choice(["true", "false"]),
        cache=chance.choice(["", "cache: {rows: 5, ttl: 1s}"]),
    )
    with TemporaryDirectory() as folder:
        rhythm = CheckpointSchedule(
            interval_s=chance.choice([0.3, 1.0, 3.0]), tolerable_failures=1000
        )
        life = Life(Path(folder), text, memory, rhythm)
        outcome = live(life, [drawn(chance) for _ in range(chance.randrange(6))], chance)
    assert outcome.failure is None, outcome.failure
    assert life.finished
    compare(memory, frame.filter(frame["n"] % 7 > 0))


def drawn(chance: random.Random) -> Fate:
    """Draw the events of a job, except disk failures: lookups store nothing on a disk."""
    fate = Fate.drawn(chance)
    fate.failing = range(0)
    return fate


def compare(memory: FlakyMemory, frame: pl.DataFrame) -> None:
    """The output equals that of a join."""
    joined = frame.join(NAMES, left_on="customer", right_on="id", how="left")
    found, missed = joined.drop_nulls("name"), joined.filter(joined["name"].is_null())
    assert there(memory, "out", "n", "name") == Counter(found.select("n", "name").rows())
    wanted = Counter(missed.select("n", "customer").rows())
    assert there(memory, "unknown", "n", "customer") == wanted
    counts = there(memory, "counted", "n")
    assert sum(n * many for (n,), many in counts.items()) == found.height


def there(memory: FlakyMemory, name: str, *columns: str) -> Counter[tuple[Any, ...]]:
    """Return these columns of the committed output of a name, as a multiset of rows."""
    frames = memory.outputs.get(name, [])
    return Counter(row for frame in frames for row in frame.select(columns).rows())


def splits(frame: pl.DataFrame, chance: random.Random) -> dict[str, list[MemoryEvent]]:
    """Distribute rows over splits, in chunks, with pauses."""
    found: dict[str, list[MemoryEvent]] = {}
    for at in range(number := chance.choice([1, 3])):
        part = frame.gather_every(number, at)
        for piece in cut(part, chance.choice([1, 4, 50])):
            found.setdefault(str(at), []).extend([piece, chance.choice([0.0, 0.4, 2.0])])
    return found or {"0": []}


def shelf(chance: random.Random) -> LookupTableData:
    """A table that is sometimes slow, hangs, or fails."""
    slowest = chance.choice([0.0, 0.05, 0.5])

    def seconds(number: int, keys: Sequence[Key]) -> float:
        return 100.0 if chance.random() < 0.03 else chance.uniform(0, slowest)

    def fails(number: int, keys: Sequence[Key]) -> ConnectorError | None:
        return ConnectorError("not now") if chance.random() < 0.05 else None

    return LookupTableData(NAMES, seconds, fails, chance.choice([1, 3, 1000]))


if __name__ == "__main__":
    for number in range(int(sys.argv[1])):
        try:
            survive(random.Random(f"lookup {number}"))
        except BaseException:
            print(f"seed {number}")
            raise
