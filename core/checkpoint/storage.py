"""The checkpoint storage of a job and its rules: where, how often, and what follows a failure.

The storage is synchronous: calls that wait for a disk are made on the KernelExecutor.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import field, replace

from headrace.core.api.run_context import CommitTiming, JobNotes, NoJobNotes
from headrace.core.api.snapshots import Manifest, RefusedSnapshot, SnapshotError, SnapshotStore
from headrace.core.api.state import Document
from headrace.core.checkpoint import manifest
from headrace.core.checkpoint.completion_record import CompletionRecord, build_completion_record
from headrace.core.checkpoint.history import CheckpointHistory, CheckpointPauses
from headrace.core.checkpoint.manifest import RestoredCheckpoint
from headrace.core.checkpoint.pins import CheckpointPins
from headrace.core.coordination.checkpoint_coordinator import CheckpointSchedule
from headrace.core.coordination.events import JobEvent, JobRestarting, RegionsRestarting
from headrace.core.coordination.messages import CheckpointCompleted, CheckpointFailed, WriteManifest
from headrace.core.coordination.restart import RestartPolicy
from headrace.core.errors import failpoints
from headrace.core.plan import nodes
from headrace.core.types.lazy_dataclass import dataclass


@dataclass(slots=True)
class CheckpointStorage:
    """The checkpoint store of one job, its history and its rules."""

    store: SnapshotStore
    restarts: RestartPolicy
    schedule: CheckpointSchedule = field(default_factory=CheckpointSchedule)
    retained_count: int = 3
    is_aligned: bool = True
    """Whether inputs wait for each other's barriers, so that each row counts exactly once."""
    version: str = ""
    time: Callable[[], str] = str
    """Returns the wall-clock time as text for people."""
    on_event: Callable[[JobEvent], None] = lambda event: None
    on_finished: Callable[[], None] = lambda: None
    """Called when all input was read and all output is committed."""
    write_commit_record: Callable[[int], None] = lambda number: None
    """Records durably that all output of a checkpoint is committed."""
    read_commit_record: Callable[[], int | None] = lambda: None
    """Returns the last recorded checkpoint; its output may have been removed since."""
    write_completion_record: Callable[[Document], None] = lambda document: None
    """Replaces the completion record durably."""
    read_completion_record: Callable[[], Document | None] = lambda: None
    """Returns the completion record; None if there is none yet. Raises SnapshotError."""
    notes: JobNotes = field(default_factory=NoJobNotes)
    """The storage in which sources and sinks record what must survive a crash."""
    on_deployed: Callable[[], None] = lambda: None
    """Called when the first attempt is deployed: the run can no longer be refused."""
    resumed_number: int = 0
    """The checkpoint that the run resumed from."""
    fresh_parts: frozenset[str] = frozenset()
    """The steps and sources that start fresh after that checkpoint, but not after a later one."""
    now_us: Callable[[], int] = lambda: 0
    """Returns the wall-clock time for the history."""
    history: CheckpointHistory = field(default_factory=CheckpointHistory)
    pins: CheckpointPins = field(default_factory=CheckpointPins)
    """The checkpoints that stay because they are being read."""
    _reported_bytes: int = 0
    _written_number: int = 0
    """The number of the last checkpoint that was written."""
    _written_record: CompletionRecord | None = None
    """The record to write of that checkpoint."""
    _completion: CompletionRecord | None = None
    """The completion record as it is stored; only this process changes it."""

    def find_last_number(self) -> int:
        """Return the number of the newest checkpoint, 0 if there is none."""
        return max(self.store.list_checkpoints(), default=0)

    def newest_number(self) -> int:
        """Return the number of the newest checkpoint.

        Raises SnapshotError if a newer one is missing.
        """
        record = self.read_completion()
        number = record.find_newest(self.store.list_checkpoints())
        known = max(self._written_number, self.resumed_number, record.resume_floor)
        if number < known:
            hint = "restore its folder: without it, output would be written twice"
            raise RefusedSnapshot(f"checkpoint {known} is missing from the job's home", hint)
        return number

    def find_highest_number(self) -> int:
        """Return the highest number of a checkpoint that exists or is recorded."""
        return max(self.find_last_number(), self.read_completion().highest)

    def read_completion(self) -> CompletionRecord:
        """Return the completion record. Raises SnapshotError if it is lost or damaged."""
        if self._completion is None:
            record = CompletionRecord.from_document(self.read_completion_record() or {})
            self._completion = record.include_committed(self.read_commit_record() or 0)
        return self._completion

    def replace_lost_completion(self) -> None:
        """Make up for a completion record that is lost, by what the manifests say.

        Only for a run that the user starts from a checkpoint or savepoint of his choice.
        """
        newest = self.find_last_number()
        self._completion = CompletionRecord(newest).include_committed(
            self.read_commit_record() or 0
        )

    def record_completed(self, number: int) -> None:
        """Record a checkpoint before its output is committed. Raises SnapshotError."""
        if number > self.read_completion().number:
            record = self._written_record
            if record is None or record.number != number:
                record = build_completion_record(number, self.store.read_manifest(number))
            self._write_completion(record)

    def return_to(self, number: int) -> None:
        """Abandon all checkpoints after this one: record that, and then remove their manifests.

        Raises SnapshotError; may be repeated, also by a later run.
        """
        newer = [each for each in self.store.list_checkpoints() if each > number]
        before = self.read_completion()
        record = before.return_to(number, max(newer, default=number))
        failpoints.failpoint("returning")
        if record != before:
            self._write_completion(record)
        for each in reversed(newer):
            failpoints.failpoint("returned")
            self.store.discard(each)

    def _write_completion(self, record: CompletionRecord) -> None:
        self.write_completion_record(record.to_document())
        self._completion = record

    def record_committed(self, number: int) -> None:
        """Record that all output up to this checkpoint is committed. Raises SnapshotError.

        After a return to an older checkpoint, the record of the newer ones remains.
        """
        if number > (self.read_commit_record() or 0):
            self.write_commit_record(number)

    def write(self, keep: WriteManifest, plan: nodes.Plan, base: RestoredCheckpoint | None) -> None:
        """Write a checkpoint; `base`: the one that the attempt resumed from.

        Raises SnapshotError.
        """
        document = manifest.build_manifest(keep, plan, self.version, self.time(), base)
        self.store.commit(keep.number, document)
        self._written_number = keep.number
        self._written_record = build_completion_record(keep.number, document)
        self.history.record_size(keep.number, document)
        # A failed cleanup does not invalidate the checkpoint.
        with suppress(SnapshotError):
            self.store.collect(
                {*self.store.list_checkpoints()[-self.retained_count :], *self.pins.numbers}
            )

    def read_newest(self, plan: nodes.Plan) -> RestoredCheckpoint | None:
        """Return the newest checkpoint. Raises SnapshotError."""
        number = self.newest_number()
        return self.read(number, plan) if number else None

    def read(self, number: int, plan: nodes.Plan) -> RestoredCheckpoint:
        """Return a checkpoint. Raises SnapshotError."""
        fresh = self.fresh_parts if number <= self.resumed_number else ()
        return manifest.restore_checkpoint(number, self.read_manifest(number), plan, fresh)

    @property
    def commit_timing(self) -> CommitTiming:
        """The times at which output is committed."""
        rhythm = self.schedule
        longest_s = self.restarts.max_delay_s
        return CommitTiming(rhythm.interval_s, rhythm.timeout_s, longest_s)

    def read_manifest(self, number: int) -> Manifest:
        """Return the manifest of a checkpoint, without output that is recorded as committed."""
        document = self.store.read_manifest(number)
        noted = self.read_commit_record()
        is_visible = noted is not None and number <= noted
        return manifest.drop_committed_output(document) if is_visible else document

    def report_event(self, event: JobEvent, pauses: CheckpointPauses | None = None) -> None:
        """Report an event, with the bytes that a checkpoint has added to the store."""
        if isinstance(event, CheckpointCompleted):
            before, self._reported_bytes = self._reported_bytes, self.store.bytes_written
            event = replace(event, bytes=self._reported_bytes - before)
        if isinstance(event, CheckpointCompleted | CheckpointFailed):
            self.history.record_outcome(event, self.now_us(), pauses)
        elif isinstance(event, JobRestarting | RegionsRestarting):
            self.history.restart_count += 1
        self.on_event(event)
