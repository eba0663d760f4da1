"""Files left by a killed run, which disturb neither the next run nor a reader."""

from __future__ import annotations

from pathlib import Path

import duckdb
import polars as pl
import pytest

from headrace.connectors.files.names import format_hidden_path
from tests.connectors.files.test_sink import written
from tests.support.file_pipelines import OTHER_JOB, chunks, run, sink_of, source_of, values

ROWS = pl.DataFrame({"id": [1, 2, 3]})
SUFFIX = {"json": ".jsonl", "csv": ".csv", "parquet": ".parquet"}


@pytest.fixture(params=SUFFIX)
def format(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def killed(tmp_path: Path, format: str) -> Path:
    """A folder in which one run was killed, and another one has ended since."""
    text = f"{{from: s, files: {{path: out}}, format: {format}}}"
    dead = sink_of(tmp_path, text, "{id: bigint}", job=OTHER_JOB)
    dead.check()
    written(dead, ROWS)
    pipeline = f"sources:\n  s: {{generate: {{rows: 3, columns: {{id: id}}}}}}\nsinks:\n  o: {text}"
    assert run(tmp_path, pipeline).failure is None
    (left,) = (tmp_path / "out").glob(".*")
    assert left.stat().st_size > 0
    assert left.name == format_hidden_path(f"part-fedcba98-0-0{SUFFIX[format]}")
    return tmp_path


@pytest.mark.parametrize("path", ["out", "out/*", "out/**", "o*/*.*"])
def test_our_files_source_passes_over_them(killed: Path, format: str, path: str) -> None:
    text = f"{{files: {{path: '{path}'}}, format: {format}, schema: {{id: bigint}}}}"
    source, reader = source_of(killed, text)
    found = [row for split in source.discover_splits() for row in values(chunks(reader, split))]
    assert sorted(found) == [(0,), (1,), (2,)]


def test_patterns_of_other_readers_pass_over_them(killed: Path, format: str) -> None:
    pattern = f"{killed}/out/*{SUFFIX[format]}"
    with duckdb.connect() as database:
        answer = database.execute(f"SELECT count(*), sum(id) FROM '{pattern}'").fetchall()
    assert answer == [(3, 3)]
    match format:
        case "json":
            rows = pl.scan_ndjson(pattern)
        case "csv":
            rows = pl.scan_csv(pattern)
        case _:
            rows = pl.scan_parquet(pattern)
    assert rows.collect().height == 3


@pytest.mark.parametrize("mode", ["append", "overwrite"])
def test_later_runs_leave_them_alone(killed: Path, format: str, mode: str) -> None:
    sink = f"{{from: s, files: {{path: out, mode: {mode}}}, format: {format}}}"
    pipeline = f"sources:\n  s: {{generate: {{rows: 3, columns: {{id: id}}}}}}\nsinks:\n  o: {sink}"
    assert run(killed, pipeline, job="2" * 32).failure is None
    parts = {path.name.split(".")[0] for path in (killed / "out").glob("part-*")}
    assert parts == {"part-22222222-0-0"} | ({"part-01234567-0-0"} if mode == "append" else set())
    assert len(list((killed / "out").glob(".*"))) == 1
