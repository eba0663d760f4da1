"""What there is to tell of a batch while it runs and at its end: a line, a table, a document."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from headrace.core.rendering import count

if TYPE_CHECKING:
    from rich.table import Table

    from headrace.core.spark.counts import Read
    from headrace.core.spark.progress import Stage

STARTING = "Spark starts"
WAITING = "Spark has no work to show yet"
NOT_TAKEN = "no executor has taken a task: has the cluster cores and memory free?"
PATIENCE_S = 30.0


@dataclass(frozen=True, slots=True)
class BatchLook:
    """How far it has come: the stages that were seen, or None while Spark starts."""

    seconds: float
    stages: Sequence[Stage] | None

    @property
    def running(self) -> Sequence[Stage]:
        """The stages at work."""
        return [stage for stage in self.stages or () if not stage.ended]

    @property
    def remark(self) -> str:
        """What there is to say beside the stages, if anything is."""
        if self.stages is None:
            return STARTING
        if not self.stages:
            return WAITING
        begun = any(stage.running or stage.done or stage.ended for stage in self.stages)
        return "" if begun or self.seconds < PATIENCE_S else NOT_TAKEN


@dataclass(frozen=True, slots=True)
class BatchDone:
    """What each source gave and each sink was given, and how long all of it took."""

    seconds: float
    read: Mapping[str, Read]
    rows: Mapping[str, int]

    @property
    def rows_in(self) -> int:
        """Of all sources, bad ones as well."""
        return sum(sum(each) for each in self.read.values())

    @property
    def rows_out(self) -> int:
        """Of all sinks."""
        return sum(self.rows.values())

    def parts(self) -> Iterable[tuple[str, int, int, int]]:
        """Rows in, rows out and bad records of sources and sinks."""
        for name, (rows, bad) in self.read.items():
            yield name, rows + bad, rows, bad
        for name, rows in self.rows.items():
            yield name, rows, rows, 0


def batch_line(look: BatchLook) -> str:
    """What it is doing, in a line.

    >>> batch_line(BatchLook(10.2, None))
    '10 s  Spark starts'
    """
    said = [f"{look.seconds:.0f} s"]
    for stage in look.running:
        failed = f", {stage.failed:,} failed" if stage.failed else ""
        said.append(f"{named(stage)}: {stage.done:,} of {count(stage.tasks, 'task')}{failed}")
    return "  ".join(filter(None, (*said, look.remark)))


def named(stage: Stage) -> str:
    """What a stage is for, and which it is."""
    return f"{stage.job or 'Spark'}, stage {stage.number}"


def batch_table(look: BatchLook) -> Table:
    """A row a stage."""
    from rich.table import Table

    table = Table(box=None, pad_edge=False, header_style="dim", caption_justify="left")
    table.add_column(f"{look.seconds:.0f} s", no_wrap=True)
    for head in ("tasks", "done", "running", "failed", "rows in", "rows out"):
        table.add_column(head, justify="right", no_wrap=True)
    for stage in look.stages or ():
        numbers = [stage.tasks, stage.done, stage.running, stage.failed]
        # What is read from outside, and written there, Spark does not count.
        rows = [stage.rows_in or None, stage.rows_out or None]
        cells = ["" if number is None else f"{number:,}" for number in [*numbers, *rows]]
        table.add_row(named(stage), *cells, style="dim" if stage.ended else None)
    table.caption = look.remark or None
    return table


def batch_document(look: BatchLook) -> Mapping[str, object]:
    """All of it."""
    stages = None if look.stages is None else [stage.document() for stage in look.stages]
    return {"seconds": round(look.seconds, 3), "stages": stages}


def batch_summary_lines(done: BatchDone) -> Iterable[str]:
    """The end: a row a source and a sink, and below it all of them together."""
    from headrace.cli.run_text import aligned

    rows = [(name, *(f"{number:,}" for number in numbers)) for name, *numbers in done.parts()]
    yield from aligned([("", "rows in", "rows out", "bad"), *rows])
    rate = f"{done.rows_in / max(done.seconds, 1e-9):,.0f} rows/s"
    yield f"done in {done.seconds:.1f} s: {count(done.rows_in, 'row')} in, {rate}"


def batch_summary_document(done: BatchDone) -> Mapping[str, object]:
    """The same for a program."""
    parts = {
        name: {"rows_in": rows_in, "rows_out": rows_out, "bad": bad}
        for name, rows_in, rows_out, bad in done.parts()
    }
    return {
        "seconds": round(done.seconds, 3),
        "rows_in": done.rows_in,
        "rows_out": done.rows_out,
        "bad": sum(bad for _, bad in done.read.values()),
        "parts": parts,
    }
