"""A job with a bit of everything that can be killed, and what is true of its output at any time.

Nothing here runs a job to learn what is right: each sink is held to what its rows must be. So what
is seen while the job is not yet over can be judged as well.
"""

from __future__ import annotations

import gzip
import hashlib
import json
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import polars as pl

ROWS = 20_000
RATE = 8_000
FILES = 3
LINES = 1_500
PAD = "x" * 4_000
"""Makes files that are read in several pieces."""
BAD = 10
"""So often a line is bad."""

PIPELINE = """\
name: killed
settings:
  parallelism: PARALLELISM
  checkpoint: {every: 300ms}
  restart: {first: 100ms, max: 500ms}
sources:
  numbers:
    generate:
      rows: ROWS
      rate: RATE/s
      columns:
        id: id
        at: timestamp_millis(1767225600000 + id - if(id % 20 = 0, 400, 0))
    event_time: at
    watermark: {delay: 100ms}
  lines:
    files: {path: "in/*.jsonl"}
    schema: {id: bigint, user: bigint, at: timestamp}
    event_time: at
    on_error: {to: rejected}
steps:
  windows:
    from: numbers
    key: {k: id % 7}
    window: {tumble: 1s, late_to: late}
    aggregate: {n: count(*), ids: collect_list(id)}
  totals:
    from: numbers
    key: {k: id % 11}
    aggregate: {n: count(*), total: sum(id)}
  groups: {from: numbers, select: {g: id div 5}}
  firsts: {from: groups, dedup: {key: [g], keep: first}}
  slow: {from: lines, map: {python: slow.py:slow, returns: {id: bigint, user: bigint}}}
  sessions: {from: slow, key: user, window: {session: 5s}, aggregate: {n: count(*)}}
sinks:
  windows_out: {from: windows, files: {path: windows}}
  late_out: {from: late, files: {path: late}, format: parquet}
  totals_out: {from: totals, files: {path: totals}}
  firsts_out: {from: firsts, files: {path: firsts}, format: parquet}
  sessions_out: {from: sessions, files: {path: sessions}}
  slow_out: {from: slow, files: {path: slow, partition_by: user, compression: gzip}}
  rejected_out: {from: rejected, files: {path: rejected, roll: {rows: 20}}}
"""

SLOW = """\
import time

def slow(rows):
    time.sleep(rows.height * 0.0004)
    return rows.select("id", "user")
"""

SINKS = ("windows", "late", "totals", "firsts", "sessions", "slow", "rejected")


def write_job(folder: Path, parallelism: int, rate: int = RATE) -> None:
    """The pipeline, its function and its input."""
    text = PIPELINE
    for name, value in (("PARALLELISM", parallelism), ("ROWS", ROWS), ("RATE", rate)):
        text = text.replace(name, str(value))
    (folder / "p.yaml").write_text(text)
    (folder / "slow.py").write_text(SLOW)
    (folder / "in").mkdir()
    for number in range(FILES):
        lines = "".join(f"{line(id)}\n" for id in range(number * LINES, (number + 1) * LINES))
        (folder / "in" / f"{number}.jsonl").write_text(lines)


def line(id: int) -> str:
    """The line of that number: each user has a hundred running."""
    if is_bad(id):
        return f"bad {id}"
    at = f"2026-01-01T{id // 3600:02}:{id // 60 % 60:02}:{id % 60:02}.5Z"
    return json.dumps({"id": id, "user": user(id), "at": at, "pad": PAD})


def is_bad(id: int) -> bool:
    """Whether a line cannot be read."""
    return id % BAD == 3


def user(id: int) -> int:
    """Whose line it is."""
    return id // 100


@dataclass(slots=True)
class Output:
    """What is seen of a job's output; `look` again and again, and `judge` what it has shown."""

    folder: Path
    _hashes: dict[Path, str] = field(default_factory=dict)
    rows: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    """The rows of each sink, those of a key in the order in which they were written."""

    def look(self) -> None:
        """Read all that is visible: all can be read, and nothing that was there has changed."""
        self.rows = {sink: [] for sink in SINKS}
        seen: dict[Path, str] = {}
        for sink in SINKS:
            for path in sorted((self.folder / sink).rglob("part-*"), key=number_of):
                seen[path] = hashlib.sha256(path.read_bytes()).hexdigest()
                self.rows[sink] += read(path)
        changed = {path for path, hash in self._hashes.items() if seen.get(path) != hash}
        assert not changed, f"changed or gone: {changed}"
        self._hashes = seen

    def judge(self, *, whole: bool) -> None:
        """Each row is there once at most; if the job is over, all are."""
        windows = self.rows["windows"]
        assert once((row["k"], row["window_start"]) for row in windows)
        ids = [id for row in windows for id in row["ids"]]
        assert all(row["n"] == len(row["ids"]) for row in windows)
        assert all(id % 7 == row["k"] for row in windows for id in row["ids"])
        within([*ids, *(row["id"] for row in self.rows["late"])], range(ROWS), whole)
        self._judge_totals(whole)
        within([row["g"] for row in self.rows["firsts"]], range(ROWS // 5), whole)
        good = [id for id in range(FILES * LINES) if not is_bad(id)]
        within([(row["user"], row["id"]) for row in self.rows["slow"]], pairs(good), whole)
        users = Counter(map(user, good))
        within([(row["user"], row["n"]) for row in self.rows["sessions"]], users.items(), whole)
        bad = [f"bad {id}" for id in range(FILES * LINES) if is_bad(id)]
        within([row["raw"] for row in self.rows["rejected"]], bad, whole)

    def _judge_totals(self, whole: bool) -> None:
        """Each change counts more rows than the one before it, and the last one counts all."""
        last: dict[int, Mapping[str, Any]] = {}
        for row in self.rows["totals"]:
            k = row["k"]
            assert k not in last or last[k]["n"] < row["n"], f"{row} after {last[k]}"
            last[k] = row
        if whole:
            ids = {k: range(k, ROWS, 11) for k in range(11)}
            assert {k: (row["n"], row["total"]) for k, row in last.items()} == {
                k: (len(those), sum(those)) for k, those in ids.items()
            }

    def assert_nothing_is_left(self) -> None:
        """Check that no hidden files are left, and nothing in the home but its lock."""
        hidden = [path for sink in SINKS for path in (self.folder / sink).rglob(".*")]
        assert not hidden, hidden
        kept = [path for path in (self.folder / ".headrace/killed").rglob("*") if path.is_file()]
        assert [path.name for path in kept] == ["lock"]


def pairs(ids: Iterable[int]) -> list[tuple[int, int]]:
    """Users with their lines."""
    return [(user(id), id) for id in ids]


def number_of(path: Path) -> tuple[int, str]:
    """Return a sort key: the order in which the changes of a key were written."""
    _, _, subtask, sequence = path.name.partition(".")[0].split("-")
    return int(sequence), subtask


def read(path: Path) -> list[dict[str, Any]]:
    """Return the rows of a part; a folder's name may have one of their columns."""
    if path.suffix == ".parquet":
        return pl.read_parquet(path).to_dicts()
    data = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    assert data.endswith(b"\n")
    column = dict([path.parent.name.split("=")]) if "=" in path.parent.name else {}
    return [json.loads(line) | {k: int(v) for k, v in column.items()} for line in data.splitlines()]


def once(keys: Iterable[object]) -> bool:
    """Whether no key is there twice."""
    return max(Counter(keys).values(), default=1) == 1


def within(found: Iterable[object], truth: Iterable[object], whole: bool) -> None:
    """All that was found is true, and there no more often; nothing is missing, if that is all."""
    found, truth = Counter(found), Counter(truth)
    assert not found - truth, f"too many: {sorted((found - truth).items(), key=str)[:5]}"
    if whole:
        assert not truth - found, f"missing: {sorted((truth - found).items(), key=str)[:5]}"
