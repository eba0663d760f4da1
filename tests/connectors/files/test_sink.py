"""Files as a sink: what the parts are called, what is in them, and when they are seen."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Coroutine, Sequence
from pathlib import Path
from typing import TypeVar

import polars as pl
import pytest

from headrace.connectors.memory import InMemoryData
from headrace.core.api.sinks import SinkWriter
from headrace.core.api.splits import Handle
from headrace.core.testing.simulated_loop import SimulatedLoop
from tests.support.file_pipelines import JOB, OTHER_JOB, UNPACK, OpenedSink, ids, run, sink_of

T = TypeVar("T")
FRAME = pl.DataFrame({"id": list(range(10)), "name": [f"n{at}" for at in range(10)]})
MINE = f"part-{JOB[:8]}"
OTHER = f"part-{OTHER_JOB[:8]}"


def simulate(work: Callable[[], Coroutine[None, None, T]]) -> T:
    """The result of a coroutine on virtual time."""
    with asyncio.Runner(loop_factory=lambda: SimulatedLoop(1)) as runner:
        return runner.run(work())


async def fill(writer: SinkWriter, frames: Sequence[pl.DataFrame]) -> Handle | None:
    """Write and prepare."""
    for frame in frames:
        await writer.write(frame)
    handle = await writer.prepare()
    await writer.close()
    return handle


def written(sink: OpenedSink, *frames: pl.DataFrame, subtask: int = 0) -> Handle:
    """The handle of these rows."""
    handle = simulate(lambda: fill(sink.create_writer(subtask), frames))
    assert handle is not None
    return handle


def names(folder: Path) -> list[str]:
    """Every file below a folder."""
    return sorted(str(p.relative_to(folder)) for p in folder.rglob("*") if p.is_file())


def numbers(folder: Path) -> list[int]:
    """The ids in all committed files."""
    lines = [line for file in folder.rglob("part-*") for line in file.read_text().splitlines()]
    return sorted(json.loads(line)["id"] for line in lines)


def test_a_part_has_its_name_only_when_it_is_committed(tmp_path: Path) -> None:
    sink = sink_of(tmp_path, "{from: s, files: {path: out}}")
    sink.check()
    handle = written(sink, FRAME, FRAME)
    assert handle == {"parts": [{"path": f"{MINE}-0-0.jsonl", "size": 2 * 210}]}
    assert names(tmp_path / "out") == [f".inprogress-{MINE}-0-0.jsonl.tmp"]
    for _ in range(2):
        sink.commit(handle)
        assert names(tmp_path / "out") == [f"{MINE}-0-0.jsonl"]
    assert numbers(tmp_path / "out") == sorted([*range(10)] * 2)


def test_a_handle_is_plain_data(tmp_path: Path) -> None:
    sink = sink_of(tmp_path, "{from: s, files: {path: out, roll: {rows: 4}}}")
    handle = written(sink, FRAME)
    again = sink_of(tmp_path, "{from: s, files: {path: out, roll: {rows: 4}}}")
    again.commit(json.loads(json.dumps(handle)))
    assert names(tmp_path / "out") == [f"{MINE}-0-{at}.jsonl" for at in range(3)]


def test_what_is_aborted_or_dropped_leaves_nothing(tmp_path: Path) -> None:
    sink = sink_of(tmp_path, "{from: s, files: {path: out, partition_by: id}}")
    handle = written(sink, FRAME)
    assert len(names(tmp_path / "out")) == 10
    sink.abort(handle)
    sink.abort(handle)
    assert list((tmp_path / "out").iterdir()) == []

    async def drop() -> None:
        writer = sink.create_writer(0)
        await writer.write(FRAME)
        await writer.close()

    simulate(drop)
    assert list((tmp_path / "out").iterdir()) == []


def test_what_lost_writers_left_is_removed_and_that_of_others_stays(tmp_path: Path) -> None:
    sink = sink_of(tmp_path, "{from: s, files: {path: out}}")
    kept = [written(sink, FRAME, subtask=subtask) for subtask in range(3)][1]
    sink.commit(written(sink, FRAME, subtask=3))
    sink.end_lost_writers({0, 2, 3})
    assert names(tmp_path / "out") == [f".inprogress-{MINE}-1-0.jsonl.tmp", f"{MINE}-3-0.jsonl"]
    sink.commit(kept)


def test_without_rows_there_is_nothing_to_commit(tmp_path: Path) -> None:
    sink = sink_of(tmp_path, "{from: s, files: {path: out}}")
    assert simulate(lambda: fill(sink.create_writer(0), [])) is None
    assert simulate(lambda: fill(sink.create_writer(0), [FRAME.clear()])) is None


@pytest.mark.parametrize("size", [1, 3, 10])
def test_a_part_is_closed_at_exactly_its_row_limit(tmp_path: Path, size: int) -> None:
    sink = sink_of(tmp_path, "{from: s, files: {path: out, roll: {rows: 4}}}")
    sink.commit(written(sink, *(FRAME.slice(at, size) for at in range(0, 10, size))))
    files = [tmp_path / f"out/{MINE}-0-{at}.jsonl" for at in range(3)]
    assert [len(file.read_text().splitlines()) for file in files] == [4, 4, 2]
    assert numbers(tmp_path / "out") == list(range(10))


@pytest.mark.parametrize("compression", ["none", "gzip", "zstd"])
def test_a_part_is_closed_at_about_a_size(tmp_path: Path, compression: str) -> None:
    rows = pl.DataFrame({"id": range(60_000), "name": [f"{at * 7919:x}" for at in range(60_000)]})
    text = f"{{from: s, files: {{path: out, roll: {{bytes: 100KB}}, compression: {compression}}}}}"
    sink = sink_of(tmp_path, text)
    sink.commit(written(sink, *(rows.slice(at, 20_000) for at in (0, 20_000, 40_000))))
    sizes = [file.stat().st_size for file in sorted((tmp_path / "out").iterdir())]
    assert len(sizes) > 3
    assert all(size < 130 << 10 for size in sizes)
    assert sum(size > 60 << 10 for size in sizes) >= len(sizes) - 3


def test_a_part_is_closed_after_so_long(tmp_path: Path) -> None:
    sink = sink_of(tmp_path, "{from: s, files: {path: out, roll: {every: 10s}}}")

    async def work() -> Handle | None:
        writer = sink.create_writer(0)
        for at in range(10):
            await writer.write(FRAME.slice(at, 1))
            await asyncio.sleep(4)
        return await writer.prepare()

    handle = simulate(work)
    assert handle
    sink.commit(handle)
    files = [tmp_path / f"out/{MINE}-0-{at}.jsonl" for at in range(4)]
    assert [len(file.read_text().splitlines()) for file in files] == [3, 3, 3, 1]


def test_only_the_columns_of_the_stream_are_written(tmp_path: Path) -> None:
    sink = sink_of(tmp_path, "{from: s, files: {path: out}}")
    changes = FRAME.with_columns(pl.lit(False).alias("_delete"), pl.lit(1).alias("__time"))
    sink.commit(written(sink, changes))
    assert (tmp_path / f"out/{MINE}-0-0.jsonl").read_text().startswith('{"id":0,"name":"n0"}\n')


PARTITIONED = pl.DataFrame(
    {
        "id": list(range(6)),
        "k": ["a/b", "", None, "x=1", "ü %", "a/b"],
        "at": pl.Series([0, 1, None, 3_600_000_000, 1_500_000, 0], dtype=pl.Datetime("us", "UTC")),
        "n": pl.Series([None, "1.5", "0", "-7.25", "0", None]).cast(pl.Decimal(9, 2)),
    }
)
FOLDERS = {
    "k=a%2Fb/at=1970-01-01 00%3A00%3A00/n=__HIVE_DEFAULT_PARTITION__": [0, 5],
    "k=__EMPTY_PARTITION__/at=1970-01-01 00%3A00%3A00.000001/n=1.50": [1],
    "k=__HIVE_DEFAULT_PARTITION__/at=__HIVE_DEFAULT_PARTITION__/n=0.00": [2],
    "k=x%3D1/at=1970-01-01 01%3A00%3A00/n=-7.25": [3],
    "k=ü %25/at=1970-01-01 00%3A00%3A01.5/n=0.00": [4],
}


def test_folders_have_their_names_from_the_values(tmp_path: Path) -> None:
    schema = "{id: bigint, k: string, at: timestamp, n: 'decimal(9,2)'}"
    text = "{from: s, files: {path: out, partition_by: [k, at, n]}}"
    sink = sink_of(tmp_path, text, schema)
    sink.commit(written(sink, PARTITIONED))
    for folder, expected in FOLDERS.items():
        (file,) = (tmp_path / "out" / folder).iterdir()
        assert [json.loads(line) for line in file.read_text().splitlines()] == [
            {"id": id} for id in expected
        ]
    assert len(names(tmp_path / "out")) == len(FOLDERS)
    assert names(tmp_path / "out") == sorted(
        f"{folder}/{MINE}-0-{at}.jsonl" for at, folder in enumerate(FOLDERS)
    )


@pytest.mark.parametrize("type", ["double", "binary", "'array<int>'"])
def test_what_cannot_name_a_folder_is_refused(tmp_path: Path, type: str) -> None:
    with pytest.raises(AssertionError, match='partition_by: "name" of type'):
        sink_of(
            tmp_path,
            "{from: s, files: {path: out, partition_by: name}}",
            f"{{id: bigint, name: {type}}}",
        )


@pytest.mark.parametrize("compression", ["none", "gzip", "zstd"])
@pytest.mark.parametrize("format", ["json", "csv", "raw", "parquet"])
@pytest.mark.parametrize("parallelism", [1, 3])
def test_what_one_pipeline_writes_another_reads(
    tmp_path: Path, compression: str, format: str, parallelism: int
) -> None:
    if format == "parquet" and compression != "none":
        return
    rows = pl.DataFrame({"id": [str(at) for at in range(50)]})
    memory = InMemoryData(inputs={"in": {"a": [rows[:7], rows[7:20]], "b": [rows[20:]]}})
    write = f"""
settings: {{parallelism: {parallelism}}}
sources:
  s: {{memory: {{data: in}}, schema: {{id: string}}}}
sinks:
  o: {{from: s, files: {{path: out, compression: {compression}}}, format: {format}}}
"""
    assert run(tmp_path, write, memory=memory).failure is None
    read = f"""
settings: {{parallelism: {parallelism}}}
sources:
  s: {{files: {{path: out}}, format: {format}, schema: {{id: string}}}}
sinks:
  o: {{from: s, memory: {{data: out}}}}
"""
    assert run(tmp_path, read, memory=memory, block=20).failure is None
    assert ids(memory) == list(range(50))


def test_many_folders_take_no_more_memory_than_few(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headrace.connectors.files.writer.MAX_BUFFERED_BYTES", 3 << 18)
    for compression, suffix in (("gzip", ".gz"), ("zstd", ".zst")):
        options = f"path: {compression}, partition_by: id, compression: {compression}"
        sink = sink_of(tmp_path, f"{{from: s, files: {{{options}}}}}")
        sink.commit(written(sink, *([FRAME] * 5)))
        for at in range(10):
            (file,) = (tmp_path / compression / f"id={at}").iterdir()
            data = file.read_bytes()
            assert UNPACK[suffix](data) == f'{{"name":"n{at}"}}\n'.encode() * 5


def test_the_header_of_csv_stands_in_every_part(tmp_path: Path) -> None:
    sink = sink_of(tmp_path, "{from: s, files: {path: out, roll: {rows: 5}}, format: csv}")
    sink.commit(written(sink, FRAME.head(3), FRAME.slice(3)))
    texts = [(tmp_path / f"out/{MINE}-0-{at}.csv").read_text() for at in range(2)]
    assert [text.count("id,name\n") for text in texts] == [1, 1]
    assert all(text.startswith("id,name\n") for text in texts)
