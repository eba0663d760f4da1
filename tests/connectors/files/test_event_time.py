"""Files in event time: what is not read yet holds windows open, and files keep together."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from headrace.connectors.memory import InMemoryData
from tests.support.file_pipelines import run

START = datetime(2026, 1, 1, tzinfo=UTC)
MANY = 9000
"""Rows enough that a source sends them before it looks for more."""

TEXT = """
settings: {{parallelism: {parallelism}}}
sources:
  s:
    files: {{path: "in/*"{options}}}
    schema: {{at: timestamp}}
    event_time: at
    watermark: {{{watermark}}}
steps:
  w: {{from: s, window: {{tumble: 1m}}, aggregate: {{n: count(*)}}}}
sinks: {{out: {{from: w, memory: {{data: out}}}}}}
"""


def write(folder: Path, name: str, first_s: int, rows: int = MANY) -> None:
    """A file with a row for each tenth of a second."""
    (folder / "in").mkdir(exist_ok=True)
    times = (START + timedelta(seconds=first_s + at / 10) for at in range(rows))
    (folder / "in" / name).write_text(
        "".join(f'{{"at": "{time.isoformat()}"}}\n' for time in times)
    )


def counted(
    folder: Path, parallelism: int, watermark: str = "", options: str = "", limit: int | None = None
) -> tuple[int, int]:
    """Count the rows in windows, and the late rows."""
    memory = InMemoryData()
    text = TEXT.format(parallelism=parallelism, watermark=watermark, options=options)
    outcome = run(folder, text, memory=memory, block=16 << 10, limit=limit)
    assert outcome.failure is None
    rows = sum(int(frame["n"].sum()) for frame in memory.outputs.get("out", []))
    return rows, outcome.part_counts["w"].late_rows or 0


def test_files_that_are_not_read_yet_hold_windows_open_unless_they_are_ordered(
    tmp_path: Path,
) -> None:
    for name in "abc":
        write(tmp_path, name, 0)
    assert counted(tmp_path, 1) == (3 * MANY, 0)
    rows, late = counted(tmp_path, 1, options=", ordered: true")
    assert rows + late == 3 * MANY
    assert late > MANY


@pytest.mark.parametrize("parallelism", [1, 3])
def test_of_files_that_sort_by_time_no_row_is_late(tmp_path: Path, parallelism: int) -> None:
    for at, name in enumerate("abcdef"):
        write(tmp_path, name, at * 100, rows=1000)
    assert counted(tmp_path, parallelism, options=", ordered: true") == (6000, 0)


@pytest.mark.parametrize("parallelism", [1, 2, 3])
@pytest.mark.parametrize("limit", [None, 5000])
def test_files_that_keep_together_are_read_to_their_ends(
    tmp_path: Path, parallelism: int, limit: int | None
) -> None:
    for at, name in enumerate("abcdefg"):
        write(tmp_path, name, (at * 37) % 5 * 1000, rows=1000 + 300 * at)
    watermark = "max_drift: 30s, idle: 1s"
    rows, late = counted(tmp_path, parallelism, watermark, limit=limit)
    assert rows + late == (limit or 7000 + 300 * 21)
