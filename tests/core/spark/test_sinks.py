"""The output of a batch becomes visible all at once, or not at all."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import polars as pl
import pytest

from headrace.core.api.failures import ConnectorError
from headrace.core.api.snapshots import RefusedSnapshot
from headrace.core.errors.attribution import get_failed_part
from headrace.core.spark.arrow_functions import decode_failure
from headrace.core.spark.spark_jobs import wait_for_tasks
from headrace.state.storage.home_lock import HomeLocked
from tests.support.spark.sink_runs import Batches

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROWS = 5000
SOURCE = f"""\
sources:
  numbers: {{generate: {{rows: {ROWS}, columns: {{id: id, k: id % 7, s: "concat('s', id % 7)"}}}}}}
"""
OUT = """\
sinks:
  out: {from: numbers, format: FORMAT, files: {path: out, MORE}}
"""
BROKEN = """\
steps:
  broken: {from: numbers, map: {python: "broken.py:row", returns: {id: bigint}, mode: row}}
sinks:
  first: {from: numbers, files: {path: out, mode: overwrite}}
  then: {from: broken, files: {path: other}}
"""
FAILS = """\
def row(row):
    if row["id"] == 3000:
        raise ValueError("no more")
    return {"id": row["id"]}
"""


def out(more: str = "mode: error", format: str = "json") -> str:
    return SOURCE + OUT.replace("FORMAT", format).replace("MORE", more)


@pytest.fixture
def batches(spark: SparkSession, tmp_path: Path) -> Batches:
    (tmp_path / "broken.py").write_text(FAILS)
    return Batches(tmp_path, spark)


def test_all_rows_are_there_once_and_counted(batches: Batches) -> None:
    outcome = batches.run(out())
    assert outcome is not None and outcome.sink_rows == {"out": ROWS}
    assert len(set(batches.lines())) == len(batches.lines()) == ROWS


def test_another_batch_is_refused_appends_or_overwrites(batches: Batches) -> None:
    batches.run(out())
    before = batches.parts()
    with pytest.raises(ConnectorError, match="holds output of another run") as refused:
        batches.run(out())
    assert refused.value.exit_status == 3
    batches.run(out("mode: append"))
    assert len(batches.lines()) == 2 * ROWS
    assert set(before) < set(batches.parts())
    batches.run(out("mode: overwrite"))
    assert len(batches.lines()) == ROWS
    assert not set(before) & set(batches.parts())


def test_no_rows_are_no_files_and_replace_what_was_there(batches: Batches) -> None:
    none = SOURCE + "steps: {few: {from: numbers, where: id < 0}}\n"
    sink = OUT.replace("from: numbers", "from: few").replace("FORMAT", "json")
    batches.run(none + sink.replace("MORE", "mode: error"))
    assert batches.parts() == []
    batches.run(out())
    batches.run(none + sink.replace("MORE", "mode: overwrite"))
    assert batches.parts() == []
    assert (batches.folder / "out").is_dir()


def test_a_failure_leaves_what_was_there_and_nothing_else(batches: Batches) -> None:
    batches.run(out())
    before = {part: part.read_bytes() for part in batches.parts()}
    with pytest.raises(Exception, match="no more") as failed:
        batches.run(SOURCE + BROKEN)
    failure = decode_failure(failed.value)
    assert failure is not None and failure.step == "broken"
    assert {part: part.read_bytes() for part in batches.parts()} == before
    assert batches.parts("other") == []


def test_what_was_prepared_and_not_recorded_is_removed_by_the_next_run(batches: Batches) -> None:
    batches.die(out(), after_call=False)
    assert all(part.name.startswith(".") for part in batches.parts())
    assert batches.parts()
    assert batches.run(out()) is not None
    assert len(batches.lines()) == ROWS


def test_what_was_recorded_is_committed_by_the_next_run_which_reads_nothing(
    batches: Batches,
) -> None:
    batches.run(out())
    batches.die(out("mode: overwrite"), after_call=True)
    hidden = [part for part in batches.parts() if part.name.startswith(".")]
    assert len(hidden) * 2 == len(batches.parts())
    assert batches.run(out("mode: overwrite")) is None
    assert len(batches.lines()) == ROWS
    assert len(batches.parts()) == len(hidden)
    with pytest.raises(ConnectorError, match="another run"):  # it is over, and this is another
        batches.run(out())


@pytest.mark.parametrize("after_call", [False, True])
@pytest.mark.parametrize("at", ["finish", "forget"])
def test_a_batch_that_was_killed_at_its_end_is_not_run_again(
    batches: Batches, at: str, after_call: bool
) -> None:
    batches.die(out("mode: append"), at, after_call=after_call)
    assert batches.run(out("mode: append")) is None
    assert len(batches.lines()) == ROWS
    assert batches.run(out("mode: append")) is not None
    assert len(batches.lines()) == 2 * ROWS


def test_what_was_recorded_can_be_given_up(batches: Batches) -> None:
    batches.die(out(), after_call=True)
    with pytest.raises(RefusedSnapshot, match='sink "out" and not committed') as refused:
        batches.run(out().replace("out:", "else:"))
    assert refused.value.exit_status == 3
    assert batches.run(out(), fresh=True) is not None
    assert len(batches.lines()) == ROWS


def test_a_part_that_another_machine_has_is_missed_before_anything_is_seen(
    batches: Batches,
) -> None:
    batches.die(out(), after_call=True)
    batches.parts()[0].unlink()
    with pytest.raises(ConnectorError, match="on another machine") as refused:
        batches.run(out())
    assert "as one that they share; --fresh starts from scratch" in refused.value.hint
    assert all(part.name.startswith(".") for part in batches.parts())


def test_two_batches_of_a_pipeline_do_not_run_at_once(batches: Batches) -> None:
    with batches.home(), pytest.raises(HomeLocked, match="is held by process") as refused:
        batches.run(out())
    assert refused.value.exit_status == 3


@pytest.mark.parametrize(
    ("more", "format", "suffix"),
    [
        ("compression: gzip", "json", ".jsonl.gz"),
        ("compression: zstd", "json", ".jsonl.zst"),
        ("compression: gzip", "csv", ".csv.gz"),
        ("roll: {rows: 100}", "parquet", ".parquet"),
        ("partition_by: [k, s]", "parquet", ".parquet"),
        ("partition_by: [k]", "csv", ".csv"),
    ],
)
def test_parts_are_as_a_stream_would_have_them(
    batches: Batches, more: str, format: str, suffix: str
) -> None:
    batches.run(out(more, format))
    parts = batches.parts()
    assert all(part.name.endswith(suffix) for part in parts)
    frames = [READS[format](part).with_columns(_of_folders(part)) for part in parts]
    if "roll" in more:
        assert max(frame.height for frame in frames) == 100
    found = pl.concat([frame.select("id", "k", "s") for frame in frames]).sort("id")
    assert found.rows() == [(n, n % 7, f"s{n % 7}") for n in range(ROWS)]


READS: dict[str, Callable[[Path], pl.DataFrame]] = {
    "json": pl.read_ndjson,
    "csv": pl.read_csv,
    "parquet": lambda path: pl.read_parquet(path, hive_partitioning=False),
}


def _of_folders(part: Path) -> list[pl.Expr]:
    pairs = [folder.name.partition("=") for folder in part.parents if "=" in folder.name]
    types = {"k": pl.Int64, "s": pl.String}
    return [pl.lit(value).cast(types[name]).alias(name) for name, _, value in pairs]


def test_null_the_empty_text_and_their_names_have_folders_of_their_own(batches: Batches) -> None:
    values = [None, "", "__HIVE_DEFAULT_PARTITION__", "__EMPTY_PARTITION__"]
    lines = [json.dumps({"id": id, "k": value}) for id, value in enumerate(values)]
    (batches.folder / "in.jsonl").write_text("\n".join(lines))
    source = "sources: {s: {files: {path: in.jsonl}, schema: {id: bigint, k: string}}}\n"
    batches.run(source + "sinks: {o: {from: s, files: {path: out, partition_by: k}}}\n")
    found = {part.parent.name: json.loads(part.read_text())["id"] for part in batches.parts()}
    assert found == {
        "k=__HIVE_DEFAULT_PARTITION__": 0,
        "k=__EMPTY_PARTITION__": 1,
        "k=%5F_HIVE_DEFAULT_PARTITION__": 2,
        "k=%5F_EMPTY_PARTITION__": 3,
    }
    read = batches.spark.read.schema("id bigint, k string").json(str(batches.folder / "out"))
    rows = {row["id"]: row["k"] for row in read.collect()}
    assert rows == {0: None, 1: "__EMPTY_PARTITION__", 2: values[2], 3: values[3]}


def test_rows_are_printed_in_order_when_all_else_is_written(
    batches: Batches, capfd: pytest.CaptureFixture[str]
) -> None:
    screen = "  screen: {from: numbers, stdout: {}, format: csv}\n"
    outcome = batches.run(out() + screen)
    assert outcome is not None and outcome.sink_rows == {"out": ROWS, "screen": ROWS}
    head, *lines = capfd.readouterr().out.splitlines()
    assert head == "id,k,s"
    assert [int(line.partition(",")[0]) for line in lines] == list(range(ROWS))


def test_nothing_is_printed_of_a_batch_that_fails(
    batches: Batches, capfd: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(Exception, match="no more"):
        batches.run(SOURCE + BROKEN + "  screen: {from: numbers, stdout: {}}\n")
    assert capfd.readouterr().out == ""


def test_a_batch_that_is_cancelled_leaves_no_task_and_no_file(
    batches: Batches, spark: SparkSession
) -> None:
    from threading import Event, Thread

    over = Event()

    def cancel() -> None:
        while not over.wait(0.05):
            if batches.parts():
                spark.sparkContext.cancelAllJobs()

    thread = Thread(target=cancel)
    thread.start()
    slow = f"steps: {{slow: {{from: numbers, {SLOWLY}}}}}\n"
    (batches.folder / "slow.py").write_text(SLOW)
    sinks = "sinks: {out: {from: numbers, files: {path: out}}, b: {from: slow, files: {path: b}}}\n"
    try:
        with pytest.raises(Exception, match="cancelled"):
            batches.run(SOURCE + slow + sinks)
    finally:
        over.set()
        thread.join()
    wait_for_tasks(spark.sparkContext)
    assert batches.parts() == batches.parts("b") == []


SLOWLY = "map: {python: 'slow.py:row', returns: {id: bigint}, mode: row}"
SLOW = """\
import time

def row(row):
    time.sleep(0.01)
    return {"id": row["id"]}
"""


EMPTY = """\
sources:
  some: {generate: {rows: 3, columns: {id: id}}}
  none: {files: {path: none.jsonl}, schema: {id: bigint}}
  more: {generate: {rows: 4, columns: {id: id}}}
sinks:
  c: {from: more, files: {path: c}}
  b: {from: none, files: {path: b}}
  a: {from: some, files: {path: a}}
"""


def test_all_sources_are_counted_in_their_order(batches: Batches) -> None:
    (batches.folder / "none.jsonl").write_text("")
    outcome = batches.run(EMPTY)
    assert outcome is not None
    assert list(outcome.source_counts.items()) == [
        ("some", (3, 0)),
        ("none", (0, 0)),
        ("more", (4, 0)),
    ]


CHANGED = """\
sources:
  s: {files: {path: "in/*"}, format: parquet, schema: {id: bigint}}
steps:
  changed: {from: s, map: {python: "changes.py:row", returns: {id: bigint}, mode: row}}
sinks:
  o: {from: changed, files: {path: out}}
  c: {from: changed, stdout: {}}
"""
CHANGES = {
    "was changed": "file.write_bytes(file.read_bytes())",
    "vanished": "file.unlink(missing_ok=True)",
}


@pytest.mark.parametrize("what", CHANGES)
def test_a_file_that_is_changed_while_spark_reads_it_fails_the_batch(
    batches: Batches, what: str, capfd: pytest.CaptureFixture[str]
) -> None:
    file = batches.folder / "in/a"
    file.parent.mkdir()
    pl.DataFrame({"id": range(10)}).write_parquet(file)
    lines = f"import pathlib\nfile = pathlib.Path({str(file)!r})\ndef row(row):\n    "
    (batches.folder / "changes.py").write_text(f"{lines}{CHANGES[what]}\n    return row\n")
    with pytest.raises(ConnectorError, match=f"^in/a {what} while it was read") as failed:
        batches.run(CHANGED)
    assert get_failed_part(failed.value) == "s" and failed.value.split == "in/a"
    assert not batches.parts() and not capfd.readouterr().out


def test_all_rows_of_a_full_changelog_are_inserted(batches: Batches) -> None:
    steps = "steps:\n  totals: {from: numbers, key: k, aggregate: {many: count(*)}}\n"
    sink = "sinks:\n  out: {from: totals, files: {path: out, changelog: full}}\n"
    outcome = batches.run(f"{SOURCE}{steps}{sink}")
    assert outcome is not None and outcome.sink_rows == {"out": 7}
    wanted = {
        json.dumps({"k": k, "many": len(range(k, ROWS, 7)), "_change": "insert", "_sequence": 1})
        for k in range(7)
    }
    assert {json.dumps(json.loads(line)) for line in batches.lines()} == wanted
