"""Pipelines for simulations of workers, and what is true of their output at any time."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import islice
from typing import Any

import polars as pl

from headrace.connectors.memory import InMemoryData, MemoryEvent

BEGIN = datetime(2026, 1, 1, tzinfo=UTC)
SCHEMA: Mapping[str, pl.DataType | type[pl.DataType]] = {
    "id": pl.Int64,
    "k": pl.Int64,
    "at": pl.Datetime("us", "UTC"),
}
KEYS = 5
KEY_RUNS = (1, 40)
"""Rows in a row with the same key: a run of them goes to one subtask."""
ROWS_PER_S = 10
"""Rows of a second of event time."""
PAUSES_S = (0.0, 0.0, 0.1, 0.3, 0.5)
BATCH_ROWS = (1, 5, 40)

SOURCE = (
    "{{memory: {{data: {name}}}, schema: {{id: bigint, k: bigint, at: timestamp}}, event_time: at}}"
)
STEPS = {
    "even": "{{from: {of}, where: id % 2 = 0}}",
    "both": "{{from: [s, t]}}",
    "totals": "{{from: {of}, key: k, aggregate: {{n: count(*), total: sum(id)}}}}",
    "windows": (
        "{{from: {of}, key: k, window: {{tumble: 1s}}, "
        "aggregate: {{n: count(*), total: sum(id)}}, "
        "select: {{k: k, at: window_start, n: n, total: total}}}}"
    ),
    "once": "{{from: {of}, dedup: {{key: [id], keep: first}}}}",
}


@dataclass(slots=True)
class Workload:
    """A pipeline and its rows."""

    text: str
    parts: Sequence[str]
    """The steps and sinks, and a source."""
    inputs: Mapping[str, Mapping[str, Sequence[MemoryEvent]]]
    ids: Mapping[str, Sequence[int]]
    """The numbers of the rows of each stream that is written or counted."""
    counted: Mapping[str, str]
    """The stream that each step with keys counts."""
    key_run: int = 1

    @classmethod
    def drawn(cls, chance: random.Random) -> Workload:
        """Draw a pipeline of some steps, and its rows."""
        counts = {"s": chance.choice([40, 80, 160]), "t": chance.choice([0, 40])}
        ids: dict[str, Sequence[int]] = {
            "s": range(counts["s"]),
            "t": range(1000, 1000 + counts["t"]),
        }
        steps, counted = {}, {}
        streams = ["s", "t"]
        # Without an exchange, regions of a lost worker restart alone.
        names = ["even"]
        if chance.random() < 0.65:
            names = [*chance.sample(("even", "both"), chance.randint(0, 2)), *draw_keyed(chance)]
        for name in names:
            of = chance.choice(["s", *streams])
            steps[name] = STEPS[name].format(of=of)
            counted[name] = of
            if name == "even":
                ids[name] = [id for id in ids[of] if id % 2 == 0]
            elif name == "both":
                ids[name] = [*ids["s"], *ids["t"]]
            elif name == "once":
                ids[name] = ids[of]
            if name in ids:
                streams.append(name)
        sinks = [*steps, *(name for name in ("s", "t") if chance.random() < 0.7)]
        # Every source has a reader.
        sinks += [name for name in ("s", "t") if name not in sinks]
        run = chance.choice(KEY_RUNS)
        inputs = {name: draw_splits(chance, ids[name], run) for name in ("s", "t")}
        return cls.built(steps, sinks, inputs, ids, counted, run)

    @classmethod
    def of_unequal_batches(cls) -> Workload:
        """Return a pipeline that exchanges rows by key: one row, then many of its key."""
        numbers, events, run = iter(range(200)), list[MemoryEvent](), 40
        while own := [*islice(numbers, 1 if len(events) % 4 == 0 else run - 1)]:
            events += [frame(own, run), 0.3]
        steps, ids = {"totals": STEPS["totals"].format(of="s")}, range(200)
        inputs = {"s": {"0": events}}
        return cls.built(steps, ["totals"], inputs, {"s": ids}, {"totals": "s"}, run)

    @classmethod
    def built(
        cls,
        steps: Mapping[str, str],
        sinks: Sequence[str],
        inputs: Mapping[str, Mapping[str, Sequence[MemoryEvent]]],
        ids: Mapping[str, Sequence[int]],
        counted: Mapping[str, str],
        key_run: int,
    ) -> Workload:
        """Return the pipeline of these steps and of the sources that have inputs."""
        lines = ["name: test", "sources:"]
        lines += [f"  {name}: {SOURCE.format(name=name)}" for name in inputs]
        lines += ["steps:", *(f"  {name}: {text}" for name, text in steps.items()), "sinks:"]
        lines += [f"  {name}_out: {{from: {name}, memory: {{data: {name}_out}}}}" for name in sinks]
        parts = [*inputs, *steps, *(f"{name}_out" for name in sinks)]
        return cls("\n".join(lines) + "\n", parts, inputs, ids, counted, key_run)

    @property
    def can_drain(self) -> bool:
        """Whether a job may go on after a drain: windows would be emitted in two parts."""
        return "windows" not in self.counted

    def check(self, memory: InMemoryData, *, whole: bool) -> None:
        """Check that no row is there twice, and, if that is all, that none is missing."""
        for name, ids in self.ids.items():
            if name == "once" or f"{name}_out" in self.parts:
                found = [row["id"] for row in read(memory, name)]
                check_within(name, found, ids, whole)
        if "totals" in self.counted:
            self._check_totals(read(memory, "totals"), whole)
        if "windows" in self.counted:
            ids = self.ids[self.counted["windows"]]
            groups: dict[tuple[int, datetime], list[int]] = {}
            for id in ids:
                start = BEGIN + timedelta(seconds=id // ROWS_PER_S)
                groups.setdefault((get_key(id, self.key_run), start), []).append(id)
            truth = [(k, at, len(each), sum(each)) for (k, at), each in groups.items()]
            rows = read(memory, "windows")
            windows = [(row["k"], row["at"], row["n"], row["total"]) for row in rows]
            check_within("windows", windows, truth, whole)

    def _check_totals(self, rows: Iterable[Mapping[str, Any]], whole: bool) -> None:
        """Each change of a key counts more rows than the one before it."""
        last: dict[int, tuple[int, int]] = {}
        for row in rows:
            assert row["n"] > last.get(row["k"], (0, 0))[0], f"{row} after {last[row['k']]}"
            last[row["k"]] = row["n"], row["total"]
        groups: dict[int, list[int]] = {}
        for id in self.ids[self.counted["totals"]]:
            groups.setdefault(get_key(id, self.key_run), []).append(id)
        if whole:
            assert last == {k: (len(each), sum(each)) for k, each in groups.items()}, "totals"


def draw_keyed(chance: random.Random) -> list[str]:
    """Draw steps whose rows are exchanged by key."""
    return chance.sample(("totals", "windows", "once"), chance.randint(1, 2))


def get_key(id: int, run: int) -> int:
    """Return the key of a row, with a number of rows of a key in a row."""
    return id // run % KEYS


def draw_splits(
    chance: random.Random, ids: Sequence[int], run: int
) -> Mapping[str, Sequence[MemoryEvent]]:
    """Draw the splits of a source: each has its rows in order, with pauses."""
    count = chance.choice([1, 2, 4])
    splits: dict[str, list[MemoryEvent]] = {}
    for number in range(count):
        own = [id for id in ids if id % count == number]
        events: list[MemoryEvent] = []
        while own:
            size = chance.choice(BATCH_ROWS)
            events += [frame(own[:size], run), chance.choice(PAUSES_S)]
            own = own[size:]
        splits[str(number)] = events
    return splits


def frame(ids: Sequence[int], run: int) -> pl.DataFrame:
    """Return the rows of these numbers."""
    rows = [(id, get_key(id, run), BEGIN + timedelta(seconds=id / ROWS_PER_S)) for id in ids]
    return pl.DataFrame(rows, SCHEMA, orient="row")


def read(memory: InMemoryData, name: str) -> list[dict[str, Any]]:
    """Return the committed rows of a stream, in order."""
    frames = memory.outputs.get(f"{name}_out", [])
    return [row for each in frames for row in each.iter_rows(named=True)]


def check_within(name: str, found: Iterable[Any], truth: Iterable[Any], whole: bool) -> None:
    """Check that all that was found is true and there once; nothing is missing, if that is all."""
    rows, wanted = Counter(found), Counter(truth)
    assert not rows - wanted, f"{name}: too many: {sorted((rows - wanted).items())[:5]}"
    if whole:
        assert not wanted - rows, f"{name}: missing: {sorted((wanted - rows).items())[:5]}"
