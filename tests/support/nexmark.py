"""One run of the auction site, made once: the events that pipelines read, and that DuckDB is asked.

The events are those of the `nexmark` source, seeded, but with enough time between them that windows
of ten seconds end after a few. A stand-in for that source reads them from memory, so that no test
waits that long. It has three splits, like a topic, each with every third block of rows.
"""

from __future__ import annotations

import csv
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from datetime import datetime
from decimal import Decimal
from functools import cache, partial
from pathlib import Path
from urllib.parse import unquote

import duckdb
import polars as pl

from docs.snippets import ROOT
from headrace.connectors.memory import MemoryEvent, MemorySource
from headrace.connectors.nexmark import NEXMARK, STREAMS, NexmarkSource
from headrace.connectors.nexmark_events import NexmarkEvents
from headrace.connectors.registry import REGISTRY
from headrace.core.api.run_context import RunContext
from headrace.core.plan import nodes
from headrace.core.plan.connector import Connectors
from tests.support.cli.shipped_pipelines import Row, ended, in_order, named, written
from tests.support.paths import TESTS

CONFIGS = ROOT / "configs" / "nexmark"
QUERIES = sorted((path.stem for path in CONFIGS.glob("*.yaml")), key=lambda name: int(name[1:]))
SQL = TESTS / "nexmark" / "queries"
CHANGES = {
    "q4": ("id",),
    "q6": ("seller",),
    "q9": ("id",),
    "q15": ("day",),
    "q16": ("channel", "day"),
    "q17": ("auction", "day"),
    "q18": ("bidder", "auction"),
    "q19": ("auction", "rank"),
}
"""The queries that emit changes, with the key whose last row counts."""
EVENTS = 20_000
MINUTES, DAYS = 5_000, 10_000_000
"""Microseconds of event time between two events: those of all take 100 seconds, or two days."""
STEPS = dict.fromkeys(("q14", "q15", "q16", "q17"), DAYS)
"""Columns of queries for the day or the time of day."""
SPLITS, BLOCK, PAUSE_S = 3, 1000, 0.05
"""Into how many splits events are dealt, how many are read at once, and how long none come then."""
SEED = 1
TABLES = {"bids": "bid", "auctions": "auction", "persons": "person"}

Rows = Counter[Row]


@cache
def events(stream: str, step_us: int, count: int = EVENTS) -> pl.DataFrame:
    """All the events of a stream, with all columns."""
    names = [column.split()[0] for column in STREAMS[stream].split(", ")]
    return NexmarkEvents(stream, SEED, step_us).make_frame(0, count, names)


def step_us(query: str) -> int:
    """The time between two events."""
    return STEPS.get(query, MINUTES)


def connectors(query: str, count: int = EVENTS, apart_us: int | None = None) -> Connectors:
    """Those that ship, the site's events being in memory: that number, at that distance."""
    side = NEXMARK.source
    assert side is not None
    made = partial(_from_memory, apart_us or step_us(query), count)
    return {
        **REGISTRY,
        "nexmark": replace(
            NEXMARK,
            source=replace(
                side,
                open=made,
                open_readers=lambda source, around, _: made(source, around),
            ),
        ),
    }


def _from_memory(
    step_us: int, count: int, source: nodes.Source, surroundings: RunContext
) -> MemorySource:
    options = source.options
    assert isinstance(options, NexmarkSource)
    frame = events(options.stream, step_us, count)
    size = max(BLOCK * frame.height // EVENTS, 1)
    blocks = [frame.slice(at, size) for at in range(0, frame.height, size)]
    splits = {str(at): list(_paced(blocks[at::SPLITS])) for at in range(SPLITS)}
    return MemorySource(source, splits, None, False)


def _paced(blocks: Sequence[pl.DataFrame]) -> Iterator[MemoryEvent]:
    """The blocks with some time between them, in which checkpoints are taken."""
    for block in blocks:
        yield block
        yield PAUSE_S


@cache
def wanted(query: str, count: int = EVENTS, apart_us: int | None = None) -> Rows:
    """Return DuckDB's rows of a query, over that number of events at that distance."""
    apart_us = apart_us or step_us(query)
    with tempfile.TemporaryDirectory() as folder, duckdb.connect() as database:
        for stream, table in TABLES.items():
            frame = events(stream, apart_us, count)
            plain = frame.with_columns(pl.selectors.datetime().dt.replace_time_zone(None))
            plain.write_parquet(f"{folder}/{table}.parquet")
            database.sql(f"CREATE TABLE {table} AS FROM '{folder}/{table}.parquet'")
        table = f"read_csv('{CONFIGS}/side_input.csv', types={{'value': 'VARCHAR'}})"
        database.sql(f"CREATE TABLE side_input AS FROM {table}")
        found = database.sql((SQL / f"{query}.sql").read_text("utf-8"))
        names = found.columns
        return Counter(_row(zip(names, row, strict=True)) for row in found.fetchall())


def _row(cells: Iterable[tuple[str, object]]) -> Row:
    """The cells in the order of their names, as they are written."""
    return tuple(sorted((name, _written(value)) for name, value in cells))


def _written(value: object) -> object:
    match value:
        case datetime():
            return f"{value:%Y-%m-%dT%H:%M:%S.%fZ}"
        case Decimal():
            return float(value)
    return value


def output(query: str, site: Path, folder: str = "nexmark") -> Rows:
    """Read the output of a pipeline below a site; as a table, if the pipeline emits changes."""
    parts = sorted((site / "build" / folder / query).rglob("part-*"), key=in_order)
    rows: Iterator[Row] = (row for part in parts for row in _read(part))
    if query in CHANGES:
        rows = ended(rows, CHANGES[query])
    found = Counter(_row(named(row).items()) for row in rows)
    return _summed(found) if query == "q12" else found


def _read(part: Path) -> Iterator[Row]:
    """Read the rows of a part, with the values of folders; CSV cells as numbers if possible."""
    if part.suffix != ".csv":
        yield from written(part)
        return
    values = [tuple(unquote(name).split("=")) for name in part.parts if "=" in name]
    for row in csv.DictReader(part.read_text("utf-8").splitlines()):
        cells = ((name, int(text) if text.isdigit() else text) for name, text in row.items())
        yield (*cells, *values)


def _summed(rows: Rows) -> Rows:
    """The bids of each bidder in all windows."""
    bids: Counter[object] = Counter()
    for row, times in rows.items():
        values = named(row)
        bids[values["bidder"]] += int(str(values["bid_count"])) * times
    return Counter((("bid_count", many), ("bidder", bidder)) for bidder, many in bids.items())
