"""Speed of writing rows to a table of PostgreSQL exactly once: rows a second, with a local server.

A million bids as rows of six columns are staged and committed in four parts. The figure is the
fastest of the rounds. On stderr, from the same run: the same rows by one COPY of finished text, and
the sink upserting them by a key of 100,000 values. `sql_sink 200000` writes fewer rows.
"""

from __future__ import annotations

import asyncio
import sys
import time
import uuid
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import polars as pl
import psycopg

from benchmarks.bids import SCHEMA, bids
from headrace.connectors.formats.csv_encode import CsvEncoder
from headrace.connectors.formats.json_decode import JsonDecoder
from headrace.connectors.tables.sql_sink import build_sink
from headrace.connectors.tables.sql_sink_options import SqlSink
from headrace.connectors.tables.sql_writer import build_writers
from headrace.core.api.coordinator_link import CoordinatorLink
from headrace.core.api.kernel_executor import KernelExecutor
from headrace.core.api.run_context import RunContext
from headrace.core.pipeline.text import Text
from headrace.core.plan import nodes
from tests.support.tables.postgres import running

ROWS = 1_000_000
PARTS = 4
FRAME = 50_000
KEYS = 100_000
ROUNDS = 3


def main() -> None:
    """Print the figure."""
    count = int(sys.argv[1]) if len(sys.argv) > 1 else ROWS
    frames = read(count)
    text = [CsvEncoder(SCHEMA, has_header=False).encode(frame) for frame in frames]
    keyed = [frame.with_columns(pl.col("bidder") % KEYS) for frame in frames]
    with running() as server:
        plain = server.url.replace("+psycopg", "")
        ways: dict[str, Callable[[], None]] = {
            "the sink, inserting": lambda: asyncio.run(write(server.url, frames)),
            "the sink, upserting": lambda: asyncio.run(write(server.url, keyed, "bidder")),
            "one COPY": lambda: copy(plain, text),
        }
        best = dict.fromkeys(ways, float("inf"))
        for _ in range(ROUNDS):
            for name, way in ways.items():
                execute(plain, "DROP TABLE IF EXISTS bids")
                start = time.perf_counter()
                way()
                best[name] = min(best[name], time.perf_counter() - start)
    for name, seconds in best.items():
        print(f"{name}: {count / seconds / 1000:,.0f} k rows/s", file=sys.stderr)
    print(f"{count / best['the sink, inserting'] / 1000:.0f}")


def read(count: int) -> list[pl.DataFrame]:
    """Return bids as frames."""
    decoder = JsonDecoder(SCHEMA, "ms")
    frame, bad = decoder.decode(bids(count), 0)
    assert not bad
    return [*frame.iter_slices(FRAME)]


def execute(url: str, statement: str) -> None:
    """Execute a statement."""
    with psycopg.connect(url) as connection:
        connection.execute(statement)


async def write(url: str, frames: Sequence[pl.DataFrame], key: str = "") -> None:
    """Write all rows with the sink."""
    options = {"url": Text(url), "table": Text("bids"), "create": Text("true")}
    sql: Any = SqlSink.model_validate(options | ({"key": Text(key)} if key else {}))
    sink = nodes.Sink("out", "bids", "sql", sql, None, 1, (key,) if key else ())
    with ThreadPoolExecutor(2) as threads:
        context = RunContext(Path(), uuid.uuid4().hex, KernelExecutor(threads))
        coordinator = build_sink(sink, SCHEMA, context)
        await coordinator.check()
        link = CoordinatorLink(coordinator.answer, await coordinator.describe_for_workers())
        writers = build_writers(sink, SCHEMA, context, link)
        writer = writers.create_writer(0)
        commit: asyncio.Task[None] | None = None
        for part in range(PARTS):
            for frame in frames[part::PARTS]:
                await writer.write(frame)
            handle = await writer.prepare()
            if commit is not None:
                await commit
            coordinator.on_commits_recorded()
            if handle is not None:
                commit = asyncio.create_task(coordinator.commit(handle))
        if commit is not None:
            await commit
        await writer.close()
        await writers.close()
        await coordinator.close()


def copy(url: str, text: Sequence[bytes]) -> None:
    """Copy finished text to a new table."""
    types = "auction bigint, bidder bigint, price bigint, channel text, url text, ts timestamptz"
    execute(url, f"CREATE TABLE bids ({types})")
    with (
        psycopg.connect(url) as connection,
        connection.cursor() as cursor,
        cursor.copy("COPY bids FROM STDIN (FORMAT csv)") as copying,
    ):
        for each in text:
            copying.write(each)


if __name__ == "__main__":
    main()
