"""A test of a pipeline in Python: the events of `tests:` as calls, and rows as values.

Each call is read as the event of a test file would be, bound to the plan in the same way, and given
to the same runs. So words, values, mistakes and results are those of `headrace test`.
"""

from __future__ import annotations

import asyncio
import os
import warnings
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from datetime import date, datetime, timedelta
from types import TracebackType
from typing import Any, Self, TypeAlias

import click

from headrace.cli.pipeline_file import CheckedPipeline, check_pipeline
from headrace.cli.pipeline_tests.call_nodes import CallSite, find_call
from headrace.cli.pipeline_tests.call_reader import CallReader, raise_problems
from headrace.cli.pipeline_tests.checked_tests import find_clock_warnings
from headrace.cli.pipeline_tests.isolated_plan import Planner
from headrace.cli.pipeline_tests.report import format_mismatch
from headrace.cli.pipeline_tests.runner import Variant, VariantRun, list_variants
from headrace.core.errors.problems import Problem
from headrace.core.errors.rendering import render_problem
from headrace.core.pipeline.pipeline_tests.model import (
    METRICS,
    ControlEvent,
    Expectation,
    StreamExpectation,
)
from headrace.core.pipeline.text import Text
from headrace.core.testing.bound_tests import BoundEvent, Expected
from headrace.core.testing.stream_checks import Mismatch
from headrace.core.testing.visible_rows import Row, find_difference, format_difference
from headrace.core.types.elements import DELETE

__tracebackhide__ = True
"""Failures in pytest are shown at the call of the test."""

Rows: TypeAlias = "Sequence[Mapping[str, object]] | str | os.PathLike[str]"
"""Rows as mappings, or the path of a file of rows, which begins at the folder of the test."""
Moment: TypeAlias = "datetime | str"

COMPARISON = Expected(Expectation(), ())
"""The event before rows are read: what follows from the events before has become visible."""


class PipelineTrial:
    """Runs one pipeline in virtual time, in each of the ways in which `headrace test` does.

    The job runs inside of a `with` block, and comes to rest between two calls. A mistake in a call
    raises ValueError; rows that are not as expected, and a failure of the job that is not, raise
    AssertionError.
    """

    def __init__(
        self,
        pipeline: str | os.PathLike[str],
        *,
        date: date | str | None = None,
        tables: Mapping[str, Rows] | None = None,
        given: Sequence[str] = (),
        splits: Mapping[str, int] | None = None,
        seed: int = 0,
        parallelism: int | None = None,
    ) -> None:
        """Read the pipeline of a file, whose path begins at the folder of the calling file.

        `date` is the day of times without one, `tables` has the rows of lookup tables by step,
        `given` names the steps whose rows the test gives, and `splits` the number of splits of
        sources with several. With `parallelism` there is one run, of whole batches.
        """
        call = self._begin = find_call()
        self._is_running = self._is_ended = False
        checked = _check_pipeline(call, pipeline)
        loaded = checked.loaded_pipeline
        assert checked.plan is not None, "the pipeline is valid"
        self._reader = CallReader(loaded, checked.plan, tuple(given))
        test = self._reader.read_test(call, date, tables or {}, splits or {})
        planner = Planner(loaded, self._reader.list_streams(), test.fed_streams)
        for problem in find_clock_warnings(checked):
            warnings.warn(render_problem(problem), stacklevel=2)
        unfed = replace(test, fed_streams=frozenset())
        variants = list_variants(loaded.pipeline.settings.key_groups, seed, parallelism)
        self._runs = [VariantRun(unfed, planner, variant, seed) for variant in variants]
        self._started = ExitStack()

    def __enter__(self) -> Self:
        if asyncio._get_running_loop() is not None:
            message = "the job has a loop of its own, and another one is running"
            raise_problems(self._begin, [Problem(message, None, "write the test without async")])
        for run in self._runs:
            run.start()
            self._started.callback(run.job.kill)
        self._is_running = True
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._is_running = False
        self._started.close()
        if error is None:
            for run in self._runs:
                run.report_failure()
            _raise_mismatches(self._begin, self._runs)

    def feed(self, source: str, rows: Rows) -> None:
        """Give rows to a source, or in the place of a step's output that is `given`."""
        self._handle("rows", {source: rows})

    def feed_splits(self, source: str, splits: Sequence[Rows]) -> None:
        """Give rows to several splits of a source."""
        self._handle("splits", {source: splits})

    def feed_bad(self, source: str, records: str | Sequence[str]) -> None:
        """Give records, as text, that the source cannot read."""
        self._handle("bad", {source: records})

    def watermark(self, **times: Moment) -> None:
        """State that no earlier rows of these sources follow."""
        self._handle("watermark", times)

    def idle(self, **splits: int | Sequence[int]) -> None:
        """State that these splits of sources have no rows for now."""
        self._handle("idle", splits)

    def advance(self, by: timedelta | str) -> None:
        """Let time pass on the wall clock."""
        self._handle("advance", by)

    def rescale(self, parallelism: int) -> None:
        """Let the job continue at another parallelism."""
        self._handle("rescale", parallelism)

    def checkpoint(self) -> None:
        """Take a checkpoint."""
        self._apply(find_call(), ControlEvent("checkpoint"))

    def restart(self) -> None:
        """Kill the process, and restore the job from the last checkpoint."""
        self._apply(find_call(), ControlEvent("restart"))

    def savepoint(self) -> None:
        """Take a savepoint, and resume from it in a home of its own."""
        self._apply(find_call(), ControlEvent("savepoint"))

    def end(self) -> None:
        """End all inputs, so that all windows fire, and wait for the end of the job."""
        self._apply(find_call(), ControlEvent("end"))
        self._is_ended = True

    def expect(self, streams: Mapping[str, object] | None = None, /, **more: object) -> None:
        """Compare streams as `expect` does: with lists of rows, or mappings with its keys.

        `fails` is a part of the message with which the job has failed, `metrics` its counters.
        """
        self._handle("expect", {**(streams or {}), **more})

    def rows(
        self, stream: str, *, changelog: bool = False, within: float = 0.0
    ) -> list[dict[str, Any]]:
        """Return the rows of a stream that became visible since it was last compared.

        Of a stream of changes, that is the table that all of them result in, or with `changelog`
        the changes. They are in the order in which they came at parallelism 1, and the same in all
        ways of running the test; doubles may differ by `within`.
        """
        call = find_call()
        wanted = {"contains": [], "changelog": changelog}
        [expected] = self._reader.read_events(call, "expect", {stream: wanted})
        assert isinstance(expected, Expected)
        name = expected.streams[0].stream.name
        self._apply(call, COMPARISON)
        found = [each.read_rows(name, is_changelog=changelog) for each in self._runs]
        for run, rows in zip(self._runs, found, strict=True):
            if not (changelog and run.variant.is_cut):
                _compare_runs(call, name, found[0], rows, run.variant, within)
        return [_drop_delete(row) for row in found[0]]

    def metrics(self) -> dict[str, int]:
        """Return the counters of the job since its start: `late`, `bad` and `unfilled`."""
        call = find_call()
        self._apply(call, COMPARISON)
        counts = [
            {name: run.job.count(counter) for name, counter in METRICS.items()}
            for run in self._runs
        ]
        for run, each in zip(self._runs, counts, strict=True):
            if each != counts[0]:
                message = f"the counters are {counts[0]}, and {each} {run.variant.name}"
                raise AssertionError(_format_mismatch(call, Mismatch(call.location, message)))
        return counts[0]

    def _handle(self, word: str, value: object) -> None:
        call = find_call()
        for event in self._reader.read_events(call, word, value):
            self._apply(call, event)

    def _apply(self, call: CallSite, event: BoundEvent) -> None:
        """Let an event happen in all runs. Raises AssertionError."""
        if not self._is_running:
            hint = 'as in "with PipelineTrial(...) as trial:"'
            raise_problems(call, [Problem("the job runs only inside of a with block", None, hint)])
        if self._is_ended and not isinstance(event, Expected):
            raise_problems(call, [Problem("the inputs have ended", None, "only rows are left")])
        for run in self._runs:
            run.apply(event, call.location)
        _raise_mismatches(call, self._runs)


def _check_pipeline(call: CallSite, path: str | os.PathLike[str]) -> CheckedPipeline:
    """Check a pipeline, and raise ValueError if it has errors."""
    folder = os.path.dirname(call.file.name)
    checked = check_pipeline(os.path.normpath(os.path.join(folder, path)), ())
    errors = [render_problem(each) for each in checked.problems if each.severity == "error"]
    if errors:
        raise ValueError("\n".join(errors))
    return checked


def _raise_mismatches(call: CallSite, runs: Sequence[VariantRun]) -> None:
    """Raise AssertionError for the first of the runs that have mismatches."""
    found = [(run.variant, run.take_mismatches()) for run in runs]
    for variant, mismatches in found:
        if mismatches:
            how = f" ({variant.name})" if variant.name else ""
            raise AssertionError(
                "\n".join(
                    _format_mismatch(call, replace(each, message=f"{each.message}{how}"))
                    for each in mismatches
                )
            )


def _format_mismatch(call: CallSite, mismatch: Mismatch) -> str:
    placed = replace(mismatch, location=call.place(mismatch.location))
    return click.unstyle("\n".join(format_mismatch(placed)))


def _compare_runs(
    call: CallSite,
    stream: str,
    rows: Sequence[Row],
    others: Sequence[Row],
    variant: Variant,
    within: float,
) -> None:
    """Raise AssertionError if the rows of a stream depend on the way of running the test."""
    written = StreamExpectation(Text(stream), call.location, tolerance=within)
    difference = find_difference(rows, others, written)
    if difference:
        message = f"{stream}: the rows differ {variant.name}"
        lines = tuple(format_difference(difference))
        raise AssertionError(_format_mismatch(call, Mismatch(call.location, message, lines)))


def _drop_delete(row: Row) -> dict[str, Any]:
    """Return a row; only that of a deletion says so."""
    return {name: value for name, value in row.items() if name != DELETE or value}
