"""The table of a run on a real terminal that changes its size."""

from __future__ import annotations

import os
import pty
import re
import termios
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TextIO

import pytest

from headrace.cli.run_live import LiveLines, build_progress_table
from headrace.cli.run_progress import JobProgress, PartProgress
from headrace.core.api.user_metrics import MetricValues
from headrace.core.worker.statistics import PartCounts
from tests.support.cli.processes import screen

NAMES = ("bids", "some", "screen", "kept")
PARTS = tuple(PartProgress(n, PartCounts(123456, 123456), 1.0, 1.0, 0.5) for n in NAMES)
LOOK = JobProgress(2.0, PARTS, 123456, 123456, 1.0, 1.0)
COLOUR = re.compile(r"\x1b\[[\d;]*m")
ROW = '{"x":1}\n'


@contextmanager
def terminal() -> Iterator[tuple[int, TextIO]]:
    """Both ends of a terminal of 80 columns."""
    ours, theirs = pty.openpty()
    termios.tcsetwinsize(ours, (24, 80))
    with os.fdopen(theirs, "w", encoding="utf-8") as end:
        try:
            yield ours, end
        finally:
            os.close(ours)


def read(ours: int, theirs: TextIO) -> str:
    """Return what was printed since, without colours."""
    os.write(theirs.fileno(), b"\0")
    printed = b""
    while not printed.endswith(b"\0"):
        printed += os.read(ours, 65536)
    return COLOUR.sub("", printed[:-1].decode())


@pytest.mark.parametrize("columns", [79, 40, 20, 5, 1])
def test_rows_that_are_printed_after_a_terminal_became_narrower_break_no_table(
    columns: int,
) -> None:
    with terminal() as (ours, theirs):
        lines = LiveLines(theirs)
        lines.show(build_progress_table(LOOK, "checkpoint 7 (0.3 s, 1.5 KB)"))
        assert "backpressure" in read(ours, theirs)
        termios.tcsetwinsize(ours, (24, columns))
        lines.print(theirs, ROW)
        table = read(ours, theirs).partition(ROW.replace("\n", "\r\n"))[2]
        drawn = [line for line in table.split("\r\n") if line]
        assert len(drawn) > len(NAMES)
        assert max(map(len, drawn)) <= columns
        # Each row erases all lines of the table that was drawn last, and no other.
        lines.print(theirs, ROW)
        again = read(ours, theirs)
        assert screen(table + again).count(ROW.strip()) == 1
        assert len(screen(table + again)) == 1 + sum(bool(line.strip()) for line in drawn)


@pytest.mark.parametrize("rows", [10, 3, 1])
def test_a_terminal_that_became_lower_shows_the_upper_lines(rows: int) -> None:
    with terminal() as (ours, theirs):
        lines = LiveLines(theirs)
        lines.show(build_progress_table(LOOK))
        read(ours, theirs)
        termios.tcsetwinsize(ours, (rows, 80))
        lines.print(theirs, ROW)
        table = read(ours, theirs).partition(ROW.replace("\n", "\r\n"))[2]
        assert 1 <= table.count("\r\n") <= max(1, rows - 1)


def test_the_metrics_of_a_loop_are_below_the_table() -> None:
    metrics = MetricValues({"rounds": 57}, {"round_seconds": 0.25})
    ranks = PartProgress("ranks", PartCounts(5, 5, metrics=metrics), 1.0, 1.0, 0.0)
    table = build_progress_table(JobProgress(2.0, (ranks,), 5, 5, 1.0, 1.0), "checkpoint 7")
    assert table.caption == "checkpoint 7\nmetrics of ranks: rounds 57, round_seconds 0.25"
