"""Random lives of a job whose workers die: each row is committed once, whatever comes between."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field

import pytest

from headrace.core.api.splits import Failure, Handle, Progress, Split, SubtaskId
from headrace.core.coordination.checkpoint_coordinator import (
    CheckpointCoordinator,
    CheckpointSchedule,
)
from headrace.core.coordination.coordinator import Coordinator
from headrace.core.coordination.messages import (
    AbortOutput,
    AssignSplits,
    AttemptCancelled,
    Cancel,
    CommitOutput,
    CommitRecorded,
    CoordinatorAction,
    CoordinatorEvent,
    Deploy,
    ManifestFailed,
    ManifestWritten,
    OutputCommitted,
    PauseSources,
    RegionsLost,
    RegionsReady,
    RestartRegions,
    RestoredState,
    Snapshot,
    SnapshotAcknowledged,
    SnapshotDeclined,
    StopSources,
    SubtaskCommitted,
    SubtaskFailed,
    SubtaskFinished,
    TriggerCheckpoint,
    WriteManifest,
)
from headrace.core.coordination.split_assignment import SplitAssigner

READERS = tuple(SubtaskId(0, index) for index in range(4))
REGIONS = (frozenset(READERS[:1]), frozenset(READERS[1:3]), frozenset(READERS[3:]))
SPLITS = [Split("s", name) for name in "abcdefgh"]
ROWS_OF_SPLIT = 4
LOSS = Failure("worker 1 was lost", "workers", is_transient=True)
TROUBLED_TURNS = 200
"""The number of turns in which workers die and clients come."""


@dataclass
class Reader:
    """A running subtask: it reads its splits, and writes each row to its output."""

    positions: dict[Split, int] = field(default_factory=dict)
    rows: list[str] = field(default_factory=list)
    """The rows that were written since output was last prepared."""
    barriers: list[int] = field(default_factory=list)
    has_all_splits: bool = False
    is_paused: bool = False
    is_stopped: bool = False

    def read(self) -> None:
        open_splits = [split for split, at in self.positions.items() if at < ROWS_OF_SPLIT]
        if open_splits and not self.is_paused and not self.is_stopped:
            split = open_splits[-1]
            self.rows.append(f"{split.name}{self.positions[split]}")
            self.positions[split] += 1

    @property
    def is_at_end(self) -> bool:
        return all(at == ROWS_OF_SPLIT for at in self.positions.values())

    @property
    def is_over(self) -> bool:
        return self.is_stopped or (self.has_all_splits and self.is_at_end and not self.is_paused)

    def prepare(self) -> Snapshot:
        rows, self.rows = self.rows, []
        progress = {split: Progress(at) for split, at in self.positions.items()}
        return Snapshot(progress, handle={"rows": rows} if rows else None)


class Life:
    """A job from start to end: all that is around its coordinators, in one thread."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.grows = self.random.random() < 0.5
        self.turns = 0
        self.found = 2 if self.grows else len(SPLITS)
        """The number of splits that can be discovered."""
        self.manifests: list[WriteManifest] = []
        """The durable manifests, oldest first."""
        self.open_output: list[Handle] = []
        """Prepared output that is neither committed nor aborted."""
        self.committed_rows: list[str] = []
        self.outcomes: list[str] = []
        self.restarts = 0
        self.attempt = Attempt(self)

    def run(self) -> None:
        """Run attempts until one is complete."""
        while not self.is_complete:
            assert self.turns < 50_000, (self.attempt.coordinator.state, self.outcomes)
            self.turns += 1
            self.attempt.turn()
            if self.attempt.coordinator.is_over:
                self._begin_attempt()

    @property
    def is_troubled(self) -> bool:
        return self.turns < TROUBLED_TURNS

    @property
    def is_complete(self) -> bool:
        return self.outcomes[-1:] == ["complete"]

    def _begin_attempt(self) -> None:
        """Commit what the newest manifest names, and begin again from there."""
        over = self.attempt.coordinator
        is_drained = over.state == "done" and over.is_draining
        if over.is_complete or (is_drained and self.has_read_all):
            self.outcomes.append("complete")
        else:
            self.outcomes.append(over.state)
        undecided = self.attempt.manifest
        if undecided is not None and self.random.random() < 0.5:
            self.manifests.append(undecided)
            undecided = None
        for _, handle in self.manifests[-1].handles if self.manifests else ():
            if handle in self.open_output:
                self.commit(handle)
        refused = [handle for _, handle in undecided.handles] if undecided else []
        assert all(handle in refused for handle in self.open_output)
        self.open_output.clear()
        if not self.is_complete:
            self.attempt = Attempt(self)

    def commit(self, handle: Handle) -> None:
        self.open_output.remove(handle)
        self.committed_rows += handle["rows"]  # type: ignore[arg-type]

    @property
    def has_read_all(self) -> bool:
        positions = [at.position for at in restored_splits(self.manifests[-1]).values()]
        return positions == [ROWS_OF_SPLIT] * len(SPLITS)


def restored_splits(manifest: WriteManifest | None) -> dict[Split, Progress]:
    snapshots = manifest.snapshots.values() if manifest else ()
    return {split: at for snapshot in snapshots for split, at in snapshot.splits.items()}


class Attempt:
    """One attempt of the job, with the messages that are on their way."""

    def __init__(self, life: Life) -> None:
        self.life, self.random = life, life.random
        newest = life.manifests[-1] if life.manifests else None
        last = max((manifest.number for manifest in life.manifests), default=0)
        self.coordinator = Coordinator(
            READERS,
            {"s": SplitAssigner(READERS, can_grow=life.grows)},
            {},
            CheckpointCoordinator(
                READERS, CheckpointSchedule(10, timeout_s=40, tolerable_failures=99), last + 100
            ),
        )
        self.initial = newest
        self.readers: dict[SubtaskId, Reader] = {}
        self.manifest: WriteManifest | None = None
        """The manifest that is being written."""
        self.written: dict[int | None, WriteManifest | None] = {None: newest}
        self.commits: list[CommitOutput] = []
        self.record: OutputCommitted | None = None
        self.restart: RestartRegions | None = None
        restored = RestoredState({"s": restored_splits(newest)}) if newest else None
        splits = {"s": SPLITS[: life.found]}
        self.deliver(self.coordinator.start(splits, restored, life.turns))

    def turn(self) -> None:
        """Let one thing happen that can happen now."""
        turns = [self.tick, *[self.run_reader] * 4, self.write_manifest, self.commit]
        turns += [self.record_commits, self.make_ready, self.discover]
        if self.life.is_troubled:
            turns += [self.lose, self.request, self.stop, self.fail]
        elif self.life.grows:
            turns.append(self.drain_at_end)
        self.random.choice(turns)()

    def send(self, event: CoordinatorEvent) -> None:
        self.deliver(self.coordinator.receive(event, self.life.turns))

    def deliver(self, messages: Sequence[CoordinatorAction]) -> None:
        is_cancelled = False
        for message in messages:
            match message:
                case Deploy(_, subtasks):
                    assert not self.readers.keys() & set(subtasks)
                    self.readers |= {subtask: Reader() for subtask in subtasks}
                case AssignSplits(subtask, splits, is_last):
                    reader = self.readers[subtask]
                    reader.has_all_splits = is_last
                    for split, progress in splits:
                        assert split not in reader.positions
                        reader.positions[split] = int(str(progress.position or 0))
                case AbortOutput(_, handle):
                    self.life.open_output.remove(handle)
                case WriteManifest():
                    self.manifest = message
                case CommitOutput():
                    self.commits.append(message)
                case OutputCommitted():
                    self.record = message
                case RestartRegions():
                    self.restart = message
                case Cancel():
                    is_cancelled = True
                case TriggerCheckpoint() | PauseSources() | StopSources():
                    self.command_all(message)
        if is_cancelled:
            self.readers.clear()
            self.send(AttemptCancelled())

    def command_all(self, message: TriggerCheckpoint | PauseSources | StopSources) -> None:
        for reader in self.readers.values():
            match message:
                case TriggerCheckpoint(number):
                    reader.barriers.append(number)
                case PauseSources():
                    reader.is_paused = True
                case StopSources():
                    reader.is_stopped = True

    def prepare(self, reader: Reader) -> Snapshot:
        snapshot = reader.prepare()
        if snapshot.handle is not None:
            self.life.open_output.append(snapshot.handle)
        return snapshot

    def tick(self) -> None:
        self.deliver(self.coordinator.tick(self.life.turns))

    def run_reader(self) -> None:
        if not self.readers:
            return
        subtask = self.random.choice(sorted(self.readers))
        reader = self.readers[subtask]
        if reader.barriers and self.random.random() < 0.7:
            number, snapshot = reader.barriers.pop(0), self.prepare(reader)
            if self.random.random() < 0.05:
                self.send(SnapshotDeclined(subtask, number, "no room", snapshot.handle))
            else:
                self.send(SnapshotAcknowledged(subtask, number, snapshot))
        elif reader.is_over:
            del self.readers[subtask]
            self.send(SubtaskFinished(subtask, self.prepare(reader)))
        else:
            reader.read()

    def write_manifest(self) -> None:
        if self.manifest is None:
            return
        manifest, self.manifest = self.manifest, None
        if self.random.random() < 0.2:
            self.send(ManifestFailed(manifest.number, "no room"))
        else:
            self.life.manifests.append(manifest)
            self.written[manifest.number] = manifest
            self.send(ManifestWritten(manifest.number))

    def commit(self) -> None:
        if self.commits:
            message = self.commits.pop(0)
            self.life.commit(message.handle)
            self.send(SubtaskCommitted(message.subtask))

    def record_commits(self) -> None:
        if self.record is not None:
            number, self.record = self.record.number, None
            self.send(CommitRecorded(number))

    def lose(self) -> None:
        """Lose the worker of a reader; the other readers of its region end with it, but later."""
        if self.random.random() < 0.3:
            region = self.random.choice(REGIONS)
            self.readers.pop(min(region), None)
            self.send(RegionsLost(1, region, LOSS))

    def make_ready(self) -> None:
        if self.restart is None:
            return
        restart, self.restart = self.restart, None
        self.life.restarts += 1
        for subtask in restart.subtasks:
            self.readers.pop(subtask, None)
        splits = restored_splits(self.written[restart.checkpoint])
        self.send(RegionsReady(restart.restart, RestoredState({"s": splits})))

    def discover(self) -> None:
        if self.life.grows and self.coordinator.can_assign_splits("s"):
            self.life.found = min(self.life.found + 1, len(SPLITS))
            found = SPLITS[: self.life.found]
            self.deliver(self.coordinator.assign_discovered("s", found))

    def request(self) -> None:
        requested = self.coordinator.request_checkpoint(self.life.turns)
        if requested is not None:
            self.deliver(requested[1])

    def stop(self) -> None:
        if self.random.random() < 0.05:
            drains = self.random.random() < 0.5
            self.deliver(self.coordinator.stop(self.life.turns, drains=drains))

    def fail(self) -> None:
        if self.random.random() < 0.05 and self.readers:
            subtask = self.random.choice(sorted(self.readers))
            self.send(SubtaskFailed(subtask, Failure("bad row", "s")))

    def drain_at_end(self) -> None:
        """Drain a job that has read all: a source that may grow has no other end."""
        if self.life.found == len(SPLITS) and len(self.readers) == len(READERS):
            known = [split for reader in self.readers.values() for split in reader.positions]
            if len(known) == len(SPLITS) and all(r.is_at_end for r in self.readers.values()):
                self.deliver(self.coordinator.stop(self.life.turns, drains=True))


@pytest.mark.parametrize("first", range(0, 1000, 100))
def test_each_row_is_committed_once_whenever_workers_die(first: int) -> None:
    restarts, outcomes = 0, set()
    for seed in range(first, first + 100):
        life = Life(seed)
        life.run()
        expected = [f"{split.name}{at}" for split in SPLITS for at in range(ROWS_OF_SPLIT)]
        assert sorted(life.committed_rows) == expected, f"seed {seed}: {life.outcomes}"
        assert life.open_output == [], f"seed {seed}"
        restarts += life.restarts
        outcomes |= set(life.outcomes)
    assert restarts > 100
    assert outcomes == {"complete", "done", "failed"}
