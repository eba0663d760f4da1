"""The shipped pipelines: their settings in tests, and the rows that one has emitted."""

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import cast

import polars as pl

from docs.snippets import ROOT

ELSEWHERE = {"kafka.yaml"}  # tests/support/kafka/test_demo.py has a broker for it
CONFIGS = sorted({path.name for path in (ROOT / "configs").glob("*.yaml")} - ELSEWHERE)
BIDS = ("sources.bids.nexmark.events={}",)
OF_BIDS = ("demo.yaml", "windows.yaml", "changes.yaml", "process.yaml", "user_windows.yaml")
EVENTS = dict.fromkeys((*OF_BIDS, "broadcast.yaml"), BIDS) | {
    "joins.yaml": tuple(
        f"sources.{stream}.nexmark.events={{}}" for stream in ("bids", "auctions", "persons")
    )
}
"""The number of rows to read, for pipelines that read more than a test needs."""
CHANGES = {
    "changes/totals": ("channel",),
    "changes/busiest": ("rank",),
    "changes/spent": (),
    "changes/dearest": ("rank",),
    "demo/totals": ("channel",),
    "user_windows/highest": ("auction", "window_start"),
}
"""Folders of changelogs, with their key: the last row of a key counts."""
NOT_STEADY = {"late.yaml": "which rows are late depends on how watermarks and rows interleave"}
ORDERS = 5000
"""The number of rows that late.yaml reads."""
STEADY = [name for name in CONFIGS if name not in NOT_STEADY]

Row = tuple[object, ...]
Rows = Counter[Row]


def overrides(name: str, events: str, parallelism: int) -> tuple[str, ...]:
    """Return the settings that override the file's."""
    fewer = (value.format(events) for value in EVENTS.get(name, ()))
    return (*fewer, f"settings.parallelism={parallelism}")


def output(config: Path, printed: str) -> Rows:
    """The rows of all sinks: those on the screen by their words, those in files by their folder."""
    rows: Rows = Counter(("console", *line.split()) for line in printed.splitlines())
    return rows + files(config)


def files(config: Path) -> Rows:
    """The rows of the sinks that write files."""
    rows: Rows = Counter()
    build = config.parent.parent / "build"
    for folder in build.rglob("*"):
        name = folder.relative_to(build).as_posix()
        parts = sorted(folder.glob("part-*"), key=in_order)
        found = (row for part in parts for row in written(part))
        rows.update(
            (name, *row) for row in (ended(found, CHANGES[name]) if name in CHANGES else found)
        )
    return rows


def in_order(part: Path) -> tuple[int, str]:
    """Sort the parts so that the changes of a key are in the order of writing, by any writer."""
    _, _, subtask, sequence = part.name.partition(".")[0].split("-")
    return int(sequence), subtask


def named(row: Row) -> dict[str, object]:
    """The values of a row of JSON by their names."""
    return dict(cast("tuple[tuple[str, object], ...]", row))


def ended(changes: Iterator[tuple[object, ...]], key: tuple[str, ...]) -> Iterator[Row]:
    """The table that changes end as: those of a key are in the order of their parts."""
    table: dict[Row, Row] = {}
    for row in changes:
        values = named(row)
        name = tuple(values[column] for column in key)
        if values.pop("_delete", False):
            table.pop(name, None)
        else:
            table[name] = tuple(values.items())
    yield from table.values()


def written(path: Path) -> Iterator[tuple[object, ...]]:
    """The rows of a file; when a dead letter was written is not part of it."""
    match path.suffix:
        case ".jsonl":
            for line in path.read_text("utf-8").splitlines():
                row = json.loads(line)
                if "raw" in row:
                    del row["at"]
                yield tuple(row.items())
        case ".csv":
            yield from ((line,) for line in path.read_text("utf-8").splitlines()[1:])
        case ".parquet":
            yield from pl.read_parquet(path).rows()


def accounted(config: Path) -> int:
    """Count the orders in windows of late.yaml, including those too late for theirs."""
    build = config.parent.parent / "build" / "late"
    days = ended(
        (row for path in sorted(build.glob("days/part-*"), key=in_order) for row in written(path)),
        ("shop", "window_start", "window_end"),
    )
    late = sum(1 for path in build.glob("rest/part-*") for _ in written(path))
    return sum(int(str(named(row)["orders"])) for row in days) + late
