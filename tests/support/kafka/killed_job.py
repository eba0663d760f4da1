"""A job from topics and files to topics and files, and what is true of its output at any time.

What is read is read by an independent client, read_committed: each row is there once at most, and
those of a key are in their order; when the job is over, all are.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

from tests.support.kafka.feed import KEYS, STEP_MS, is_bad
from tests.support.kafka.topics import Record
from tests.support.recovery.killed_job import once, within

Row: TypeAlias = "dict[str, Any]"

WINDOW_MS = 1000
SINKS = ("good", "windows", "totals", "even", "odd", "rejected", "lines")
"""The topics that are written."""

PIPELINE = """\
name: fired
settings:
  checkpoint: {every: 200ms, timeout: 3s, tolerable_failures: 1000, retain: 2}
  restart: {first: 200ms, max: 1s}
sources:
  numbers:
    kafka: {brokers: "BROKER", topic: NAME-in, discover: 1s}
    schema: {id: bigint, k: bigint, at: timestamp}
    event_time: at
    watermark: {delay: 1s}
    on_error: {to: rejected}
  lines:
    files: {path: "in/*.jsonl", watch: 200ms}
    schema: {id: bigint, k: bigint}
steps:
  good: {from: numbers, where: id % 10 <> 3, select: {id: id, k: k}}
  shaky: {from: good, map: {python: shaky.py:shaky, returns: {id: bigint, k: bigint}}}
  windows:
    from: numbers
    key: {k: k}
    window: {tumble: 1s, late_to: late}
    aggregate: {n: count(*), ids: collect_list(id)}
  totals:
    from: numbers
    key: {k: k}
    aggregate: {n: count(*), last: max(id)}
sinks:
  good_out: {from: shaky, kafka: {TO, topic: NAME-good, key: k, compression: zstd}}
  windows_out: {from: windows, kafka: {TO, topic: NAME-windows, key: k}}
  totals_out: {from: totals, kafka: {TO, topic: NAME-totals, key: k}}
  split_out:
    from: good
    kafka: {TO, topic: {expr: "concat('NAME-', if(id % 2 = 0, 'even', 'odd'))"}, key: k}
  rejected_out: {from: rejected, kafka: {TO, topic: NAME-rejected}}
  lines_out: {from: lines, kafka: {TO, topic: NAME-lines, key: k}}
  late_out: {from: late, files: {path: late}}
  files_out: {from: good, files: {path: files}}
"""

SHAKY = """\
import random

def shaky(rows):
    if random.random() < 0.003:
        raise RuntimeError("as it happens")
    return rows
"""


def pipeline(address: str, name: str) -> str:
    """The pipeline, whose topics begin with that name."""
    to = f'brokers: "{address}", delivery: exactly_once'
    return PIPELINE.replace("TO,", f"{to},").replace("BROKER", address).replace("NAME", name)


@dataclass(slots=True)
class Seen:
    """The rows of each topic, those of a partition in their order."""

    rows: dict[str, list[Row]] = field(default_factory=lambda: {sink: [] for sink in SINKS})

    def add(self, sink: str, record: Record) -> None:
        """One more was seen; a partition's in their order."""
        assert record.value is not None
        row = json.loads(record.value)
        assert "k" not in row or record.key is None or int(record.key) == row["k"]
        self.rows[sink].append(row)

    def missing(self, records: int, lines: int) -> int:
        """Count the missing rows, without those held back for event time."""
        all_ids = [id for id in range(records) if not is_bad(id)]
        good = sum(id % 10 != 3 for id in all_ids)
        counted: dict[int, int] = {row["k"]: row["n"] for row in self.rows["totals"]}
        found = {
            "good": good,
            "rejected": records - len(all_ids),
            "lines": lines,
        }
        missing = sum(many - len(self.rows[sink]) for sink, many in found.items())
        split = good - len(self.rows["even"]) - len(self.rows["odd"])
        return missing + split + len(all_ids) - sum(counted.values())

    def judge(self, records: int, lines: int, *, whole: bool) -> None:
        """Check the output for an input of that number of records and lines."""
        all_ids = [id for id in range(records) if not is_bad(id)]
        good = [id for id in all_ids if id % 10 != 3]
        ascending(self.rows["good"])
        within(ids(self.rows["good"]), good, whole)
        for sink, rest in (("even", 0), ("odd", 1)):
            ascending(self.rows[sink])
            within(ids(self.rows[sink]), [id for id in good if id % 2 == rest], whole)
        bad = [f"bad {id}" for id in range(records) if is_bad(id)]
        within([row["raw"] for row in self.rows["rejected"]], bad, whole)
        within(ids(self.rows["lines"]), range(lines), whole)
        self._judge_windows(all_ids, whole)
        self._judge_totals(all_ids, whole)

    def _judge_windows(self, all_ids: list[int], whole: bool) -> None:
        windows = self.rows["windows"]
        assert once((row["k"], row["window_start"]) for row in windows)
        assert all(row["n"] == len(row["ids"]) for row in windows)
        found = [(row["k"], id) for row in windows for id in row["ids"]]
        within(found, [(id % KEYS, id) for id in all_ids], whole)
        starts = {(id % KEYS, id * STEP_MS // WINDOW_MS) for id in all_ids}
        assert not whole or len(windows) == len(starts)

    def _judge_totals(self, all_ids: list[int], whole: bool) -> None:
        """Each change counts more rows than the one before it, and the last one counts all."""
        last: dict[int, Row] = {}
        for row in self.rows["totals"]:
            k = row["k"]
            assert k not in last or last[k]["n"] < row["n"], f"{row} after {last[k]}"
            last[k] = row
        if whole:
            assert {k: (row["n"], row["last"]) for k, row in last.items()} == totals(all_ids)


def totals(all_ids: Iterable[int]) -> Mapping[int, tuple[int, int]]:
    """Count the rows of each key, and find its last."""
    by_key: dict[int, list[int]] = {}
    for id in all_ids:
        by_key.setdefault(id % KEYS, []).append(id)
    return {k: (len(those), max(those)) for k, those in by_key.items()}


def ids(rows: Iterable[Row]) -> list[int]:
    """Their numbers."""
    return [row["id"] for row in rows]


def ascending(rows: Iterable[Row]) -> None:
    """Those of each key come in their order."""
    last: dict[int, int] = {}
    for row in rows:
        k, id = row["k"], row["id"]
        assert last.get(k, -1) < id, f"{id} after {last[k]}, of key {k}"
        last[k] = id


def in_files(folder: Path) -> list[int]:
    """The numbers of the rows in files."""
    parts = sorted(folder.glob("part-*"))
    return [json.loads(line)["id"] for part in parts for line in part.read_bytes().splitlines()]


__all__ = ["SHAKY", "SINKS", "Seen", "in_files", "pipeline"]
