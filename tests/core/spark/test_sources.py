"""A batch reads what a stream reads: the rows, the bad records, and in the same order of all."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import polars as pl
import pytest

from headrace.core.api.failures import ConnectorError
from headrace.core.spark.arrow_functions import decode_failure
from headrace.core.spark.sources import SourceCounts
from headrace.core.types.elements import ORDER
from tests.support.spark.reads import Reads, batch, stream, text_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SCHEMA = "schema: {id: bigint not null, k: int, name: string, t: timestamp}, event_time: t"
FILES = f"{{files: {{path: 'in/*'}}, {SCHEMA}, on_error: {{to: bad}}}}"
FIRSTS = """\
steps:
  firsts:
    from: s
    key: k
    window: {tumble: 1m}
    aggregate: {n: count(*), first: first(id), last: last(name)}
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "in").mkdir()
    return tmp_path


def line(at: int) -> str:
    """A record; one in ten is bad, and many are of one time."""
    key = '"x"' if at % 10 == 3 else at % 3
    time = f'"2026-01-31T08:0{at // 100}:00Z"' if at % 17 else "null"
    return f'{{"id": {at}, "k": {key}, "name": "n{at}", "t": {time}}}\n'


def write_lines(folder: Path, files: int = 20) -> None:
    for file in range(files):
        data = "".join(line(at) for at in range(file * 10, file * 10 + 10)).encode()
        packed = file % 4 == 1
        name = f"{file:03}.jsonl" + ".gz" * packed
        (folder / "in" / name).write_bytes(gzip.compress(data) if packed else data)


def test_rows_and_bad_records_are_those_of_a_stream(spark: SparkSession, folder: Path) -> None:
    write_lines(folder)
    text = text_of(FILES, FIRSTS, o="s", letters="bad", windows="firsts")
    outcome, wanted = stream(folder, text)
    assert outcome.failure is None
    reads = batch(spark, folder, text)
    assert {name: reads.rows(name) for name in wanted} == wanted
    bad = wanted["letters"].total()
    assert bad > 20
    assert reads.rows() == wanted["o"]  # it is read again
    assert reads.counts.sum_by_source() == {"s": SourceCounts(200 - bad, bad)}


def test_many_small_files_are_a_few_tasks(spark: SparkSession, folder: Path) -> None:
    write_lines(folder, 100)
    text = text_of(FILES.replace("{to: bad}", "skip"), o="s")
    reads = batch(spark, folder, text)
    assert reads.frames["o"].rdd.getNumPartitions() < 10
    assert reads.rows() == stream(folder, text)[1]["o"]


@pytest.mark.parametrize("format", ["json", "parquet"])
def test_the_first_bad_record_fails_with_its_place(
    spark: SparkSession, folder: Path, format: str
) -> None:
    (folder / "in/a").write_text("".join(map(line, (1, 2))))
    (folder / "in/b").write_text("".join(map(line, (4, 5, 3, 13))))
    if format == "parquet":
        frame_of(0, 9).pipe(OTHERS["a null"]).write_parquet(folder / "in/b")
        frame_of(0, 3).write_parquet(folder / "in/a")
    failing = FILES.replace("{to: bad}", f"fail, format: {format}")
    text = text_of(failing, o="s")
    outcome, _ = stream(folder, text)
    assert outcome.failure is not None
    with pytest.raises(Exception, match="bad record") as failed:
        batch(spark, folder, text).rows()
    failure = decode_failure(failed.value)
    assert failure is not None
    assert (failure.message, failure.hint) == (outcome.failure.message, outcome.failure.hint)
    assert (failure.step, failure.split, failure.position) == (
        "s",
        outcome.failure.split,
        outcome.failure.position,
    )


TIME = pl.lit(1_769_846_400_000_000).cast(pl.Datetime("us", "UTC"))


def frame_of(first: int, count: int) -> pl.DataFrame:
    """Rows without a null where none may be; many are of one time."""
    ids = pl.int_range(first, first + count, eager=True, dtype=pl.Int64)
    names = pl.Series([None if at % 5 == 0 else f"é{at}" for at in ids], dtype=pl.String)
    minutes = pl.duration(minutes=pl.col("id") // 100)
    return pl.DataFrame({"id": ids, "k": (ids % 3).cast(pl.Int32), "name": names}).with_columns(
        t=TIME + minutes
    )


PARQUET = FILES.replace("on_error", "format: parquet, on_error")


def is_native(reads: Reads, stream: str = "s") -> bool:
    """Whether Spark alone reads the files."""
    plan = reads.streams[stream]._jdf.queryExecution().toString()
    return "FileScan parquet" in plan and "MapInArrow" not in plan


@pytest.mark.parametrize("files", [1, 5])
def test_parquet_is_read_by_spark_and_its_rows_have_their_places(
    spark: SparkSession, folder: Path, files: int
) -> None:
    for file in range(files):
        frame_of(file * 100, 100).write_parquet(folder / f"in/ä {file}.parquet", row_group_size=30)
    text = text_of(PARQUET, FIRSTS, o="s", letters="bad", windows="firsts")
    _, wanted = stream(folder, text)
    reads = batch(spark, folder, text)
    assert is_native(reads)
    assert reads.rows("windows") == wanted["windows"]
    assert reads.rows("o") == wanted["o"]
    assert not reads.rows("letters")
    assert reads.counts.sum_by_source() == {"s": SourceCounts(100 * files, 0)}


def test_columns_that_nobody_reads_are_not_read_of_parquet(
    spark: SparkSession, folder: Path
) -> None:
    frame_of(0, 10).write_parquet(folder / "in/a")
    steps = "steps: {few: {from: s, where: k = 1, select: {k: k}}}"
    source = PARQUET.replace(", on_error: {to: bad}", "").replace(", event_time: t", "")
    reads = batch(spark, folder, text_of(source, steps, o="few"))
    plan = reads.frames["o"]._jdf.queryExecution().toString()
    assert "ReadSchema: struct<k:int>" in plan
    assert reads.rows().total() == 3


OTHERS: dict[str, Callable[[pl.DataFrame], pl.DataFrame]] = {
    "another type": lambda frame: frame.with_columns(pl.col("k").cast(pl.Int8)),
    "another unit": lambda frame: frame.with_columns(pl.col("t").dt.cast_time_unit("ms")),
    "a null": lambda frame: frame.with_columns(id=pl.when(pl.col("id") != 7).then("id")),
    "no time": lambda frame: frame.with_columns(t=pl.when(pl.col("id") != 7).then("t")),
}


@pytest.mark.parametrize("other", OTHERS)
def test_other_parquet_files_are_read_without_spark_with_the_rest(
    spark: SparkSession, folder: Path, other: str
) -> None:
    frame_of(0, 10).pipe(OTHERS[other]).write_parquet(folder / "in/a")
    frame_of(10, 10).write_parquet(folder / "in/b")
    text = text_of(PARQUET, FIRSTS, o="s", letters="bad", windows="firsts")
    _, wanted = stream(folder, text)
    reads = batch(spark, folder, text)
    assert not is_native(reads)
    assert reads.rows("o") == wanted["o"]
    assert reads.rows("windows") == wanted["windows"]
    assert reads.rows("letters") == wanted.get("letters", {})


@pytest.mark.parametrize("name", ["in/_a", "in/[a]", "in/{a}", "in/a:b%20", "in/day=1/k=9"])
def test_a_file_is_found_whatever_it_is_called(
    spark: SparkSession, folder: Path, name: str
) -> None:
    (folder / name).parent.mkdir(exist_ok=True)
    frame_of(0, 10).write_parquet(folder / name)
    path = "in/**" if "day" in name else name.replace("[", "[[]")
    source = PARQUET.replace("'in/*'", f"'{path}'").replace(", on_error: {to: bad}", "")
    text = text_of(source, FIRSTS, o="s", windows="firsts")
    _, wanted = stream(folder, text)
    reads = batch(spark, folder, text)
    assert reads.rows() == wanted["o"]
    assert reads.rows("windows") == wanted["windows"]


def test_a_missing_column_is_refused_before_anything_runs(
    spark: SparkSession, folder: Path
) -> None:
    frame_of(0, 10).drop("name").write_parquet(folder / "in/a")
    with pytest.raises(ConnectorError, match='the file has no column "name"'):
        batch(spark, folder, text_of(PARQUET, o="s", letters="bad"))


@pytest.mark.parametrize("format", ["json", "parquet"])
def test_rows_are_counted_of_which_no_column_is_read(
    spark: SparkSession, folder: Path, format: str
) -> None:
    (folder / "in/a").write_text('{"k": 1}\n{"k": 2}\n')
    if format == "parquet":
        frame_of(0, 2).write_parquet(folder / "in/a")
    source = f"{{files: {{path: 'in/*'}}, format: {format}, schema: {{k: int}}}}"
    steps = "steps: {all: {from: s, aggregate: {n: count(*)}}}"
    reads = batch(spark, folder, text_of(source, steps, o="all"))
    assert reads.rows() == {(2,): 1}


@pytest.mark.parametrize(
    "source",
    [
        "{generate: {rows: 70000, columns: {id: id, k: 'id % 7'}}}",
        "{nexmark: {events: 70000, rate: 500000/s, stream: auctions}}",
    ],
)
def test_numbers_have_their_places(spark: SparkSession, tmp_path: Path, source: str) -> None:
    text = text_of(source, "steps: {top: {from: s, top: {n: 3, by: id % 2}}}", o="top", all="s")
    _, wanted = stream(tmp_path, text)
    reads = batch(spark, tmp_path, text)
    assert reads.rows("all") == wanted["all"]
    frame = pl.DataFrame(reads.streams["s"].toArrow())
    places = frame[ORDER].struct.field("at")
    assert places.n_unique() == frame.height
    assert frame.sort(places)["id"].is_sorted()
