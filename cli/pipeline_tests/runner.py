"""The run of a test: its events are given to a job one by one, and its output is compared.

A test runs in several variants, which must all give the expected rows: at parallelism 1, and at
parallelism 3 with the rows of each event cut into batches at random.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import field
from datetime import UTC, datetime, time

import polars as pl

from headrace.cli.pipeline_tests.fed_source import FedEvent, FedInput, FedTime
from headrace.cli.pipeline_tests.isolated_plan import Planner
from headrace.cli.pipeline_tests.record_decoding import decode_bad_record
from headrace.cli.pipeline_tests.simulated_job import JobStuck, SimulatedJob
from headrace.core.api.user_code import forget_modules
from headrace.core.errors.problems import Location
from headrace.core.pipeline.pipeline_tests.model import (
    METRICS,
    ClockAdvance,
    ControlEvent,
    Rescale,
)
from headrace.core.plan import nodes
from headrace.core.testing.bound_tests import (
    BoundEvent,
    BoundTest,
    Expected,
    ExpectedStream,
    FedIdleness,
    FedRecords,
    FedRows,
    FedWatermark,
)
from headrace.core.testing.corrections import (
    FIXED_CHECKS,
    Correction,
    CounterCorrection,
    StreamCorrection,
)
from headrace.core.testing.row_frames import build_frame, build_records
from headrace.core.testing.stream_checks import Mismatch, check_rows
from headrace.core.testing.typed_rows import get_lookup, list_table_columns
from headrace.core.testing.visible_rows import Row, fold_changes
from headrace.core.types.lazy_dataclass import dataclass

ENDS_OF_PROCESSES = (ControlEvent("restart"), ControlEvent("savepoint"))
"""The events after which another process runs the job."""


@dataclass(frozen=True, slots=True)
class Variant:
    """One way to run a test that must not change its result."""

    name: str
    parallelism: int
    is_cut: bool = False
    """Whether the rows of each event are cut into batches at random."""

    @property
    def uncut_variant(self) -> Variant:
        """The variant at the same parallelism in which the rows of an event are one batch."""
        return Variant(f"at parallelism {self.parallelism}", self.parallelism)


def list_variants(key_groups: int, seed: int, parallelism: int | None) -> list[Variant]:
    """Return the variants of each test; with a parallelism, the one of it."""
    if parallelism is not None:
        return [Variant(f"at parallelism {parallelism}", parallelism)]
    most = min(3, key_groups)
    cut = f"at parallelism {most}, with rows cut at random: --seed {seed}"
    return [Variant("", 1), Variant(cut, most, is_cut=True)]


@dataclass(slots=True)
class VariantRun:
    """One run of a test; `mismatches` are why it fails."""

    test: BoundTest
    planner: Planner
    variant: Variant
    seed: int
    corrections: list[Correction] | None = None
    """Collects how failed expectations would hold; None: they are mismatches."""
    mismatches: list[Mismatch] = field(default_factory=list)
    job: SimulatedJob = field(init=False)
    _sources: Mapping[str, nodes.Source] = field(init=False)
    _failure: tuple[Location, str] | None = None
    """The place and message of a failure of the job that no event has expected yet."""
    _seen: dict[str, int] = field(default_factory=dict)
    """The number of rows of each stream that were compared."""

    def __post_init__(self) -> None:
        self.planner = self.planner.feed(self.test.fed_streams, self.test.streams)
        chance = random.Random(f"{self.seed} {self.test.test.name}")
        variant, plan = self.variant, self.planner.plan(self.variant.parallelism)
        self._sources = {part.name: part for part in plan if isinstance(part, nodes.Source)}
        inputs = {
            name: FedInput(
                tuple([] for _ in range(self.test.split_counts.get(name, 1))),
                build_records([], source),
                is_gathered=not variant.is_cut,
            )
            for name, source in self._sources.items()
        }
        lookups = {part.name: found for part in plan if (found := get_lookup(part)) is not None}
        tables = {
            step: build_frame(self.test.tables[step], list_table_columns(lookup))
            for step, lookup in lookups.items()
        }
        day = self.test.test.day
        start_s = datetime.combine(day, time(), UTC).timestamp() if day is not None else 0.0
        self.job = SimulatedJob(
            self.planner,
            variant.parallelism,
            inputs,
            tables,
            start_s,
            self.seed,
            chance if variant.is_cut else None,
        )

    def run(self) -> list[Mismatch]:
        """Run the test to its end, or to its first mismatch."""
        try:
            self.start()
            for location, event in self.test.events:
                self.apply(event, location)
                if self.mismatches:
                    break
            self.report_failure()
        finally:
            self.job.kill()
        return self.mismatches

    def start(self) -> None:
        """Start the process of the job; whoever has started it kills it."""
        self._start_process(self.test.test.location)

    def apply(self, event: BoundEvent, location: Location) -> None:
        """Let an event happen, and all that follows from it; collect the mismatches."""
        is_compared = isinstance(event, Expected) and event.written.failure is None
        if is_compared or event == ControlEvent("restart"):
            self.report_failure()
        if event != ControlEvent("restart") and not self.mismatches:
            try:
                self.job.run(self._apply(event, location))
            except JobStuck as stuck:
                self.mismatches.append(Mismatch(location, str(stuck)))
            self._note_failure(event, location)
        if event in ENDS_OF_PROCESSES and not self.mismatches:
            self.job.kill()
            self._start_process(location)

    def _start_process(self, location: Location) -> None:
        forget_modules()
        self.job.start()
        self._note_failure(None, location)

    def _note_failure(self, event: BoundEvent | None, location: Location) -> None:
        """Record where the job has failed, until an event expects it."""
        if isinstance(event, Expected) and event.written.failure is not None:
            self._failure = None
        elif self.job.failure and self._failure is None:
            self._failure = (location, self.job.failure)

    def report_failure(self) -> None:
        """Report a failure of the job that no event has expected."""
        if self._failure is None or self.mismatches:
            return
        location, message = self._failure
        hint = "expect: {fails: ...} expects it"
        self.mismatches.append(Mismatch(location, f"the job has failed: {message}", hint=hint))

    def take_mismatches(self) -> list[Mismatch]:
        """Return the mismatches since the last call; a failure that was reported is done with."""
        mismatches, self.mismatches = self.mismatches, []
        if mismatches:
            self._failure = None
        return mismatches

    async def _apply(self, event: BoundEvent, location: Location) -> None:
        job = self.job
        match event:
            case FedRows(source, splits):
                for split, rows in enumerate(splits):
                    job.feed(source, split, self._cut(build_records(rows, self._sources[source])))
            case FedWatermark(source, at_us):
                for split in range(len(job.inputs[source].splits)):
                    job.feed(source, split, [FedTime(at_us)])
            case FedIdleness(source, splits):
                for split in splits:
                    job.feed(source, split, [FedTime(None)])
            case FedRecords(source, records):
                bad = [decode_bad_record(self._sources[source], each) for each in records]
                job.feed(source, 0, [each for each in bad if each is not None])
            case ClockAdvance(by):
                return await job.advance(by.total_seconds())
            case ControlEvent("end"):
                return await job.end()
            case ControlEvent("savepoint"):
                return await job.take_savepoint()
            case ControlEvent():
                return await job.take_checkpoint()
            case Rescale(parallelism):
                return await job.rescale(parallelism)
            case Expected():
                return await self._compare(event, location)
        await job.rest()

    def _cut(self, frame: pl.DataFrame) -> Sequence[FedEvent]:
        """Cut the rows of an event, if that is wanted."""
        if not frame.height:
            return ()
        chance = self.job.chance
        if chance is None:
            return [frame]
        pieces = list[FedEvent]()
        while frame.height:
            size = chance.randint(1, frame.height)
            pieces.append(frame.head(size))
            frame = frame.slice(size)
        return pieces

    async def _compare(self, expected: Expected, location: Location) -> None:
        await self.job.take_checkpoint()
        failure = expected.written.failure
        if failure is not None and failure.reveal() not in self.job.failure:
            got = f"it failed with: {self.job.failure}" if self.job.failure else "it did not fail"
            message = f'the job was expected to fail with "{failure}", and {got}'
            self.mismatches.append(Mismatch(failure.locate(), message, check="fails"))
        for each in expected.streams:
            self.mismatches += self._check_stream(each)
        for name, wanted in expected.written.metrics.items():
            count = self.job.count(METRICS[str(name)])
            if count == wanted:
                continue
            if self.corrections is not None:
                self.corrections.append(CounterCorrection(name, count, expected))
            else:
                message = f"{name}: wanted {wanted}, got {count}"
                self.mismatches.append(Mismatch(name.locate(), message, check="metrics"))

    def read_rows(self, stream: str, *, is_changelog: bool) -> Sequence[Row]:
        """Return the rows of a stream that became visible since the last call.

        Of a stream of changes, that is the table that all of them result in, or the changes.
        """
        kind, changes = self.job.get_stream(stream).kind, self.job.get_rows(stream)
        seen, self._seen[stream] = self._seen.get(stream, 0), len(changes)
        is_new = is_changelog or isinstance(kind, nodes.Append)
        return changes[seen:] if is_new else fold_changes(changes, kind)

    def _check_stream(self, expected: ExpectedStream) -> Sequence[Mismatch]:
        is_changelog = expected.written.is_changelog
        rows = self.read_rows(expected.stream.name, is_changelog=is_changelog)
        if is_changelog and self.variant.is_cut:
            return ()  # more batches may have more changes in between
        is_ordered = self.variant.parallelism == 1
        mismatches = list(check_rows(expected, rows, is_ordered=is_ordered))
        if self.corrections is None or any(each.check not in FIXED_CHECKS for each in mismatches):
            return mismatches
        if mismatches:
            self.corrections.append(StreamCorrection(expected, rows))
        return ()
