"""Regions of a lost worker restart alone: rows are committed once, whatever comes in between."""

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
    Cancel,
    CheckpointFailed,
    CommitOutput,
    CommitRecorded,
    CoordinatorAction,
    CoordinatorEvent,
    Deploy,
    ManifestFailed,
    ManifestWritten,
    OutputCommitted,
    RegionsLost,
    RegionsReady,
    RestartRegions,
    RestoredState,
    SetDriftLimit,
    Snapshot,
    SnapshotAcknowledged,
    SnapshotDeclined,
    SubtaskCommitted,
    SubtaskFailed,
    SubtaskFinished,
    TriggerCheckpoint,
    WatermarkReport,
    WriteManifest,
)
from headrace.core.coordination.split_assignment import SplitAssigner
from headrace.core.coordination.watermark_alignment import WatermarkAlignment

P, Q, R, T = READERS = tuple(SubtaskId(0, index) for index in range(4))
REGIONS = (frozenset({P}), frozenset({Q, R}), frozenset({T}))
SPLITS = [Split("s", name) for name in "abcdefgh"]
ROWS_OF_SPLIT = 4
LOSS = Failure("worker 1 was lost", "workers", is_transient=True)


def job(**options: WatermarkAlignment) -> Coordinator:
    """Return a job that has begun; a checkpoint is due every 10 s from 0."""
    checkpoints = CheckpointCoordinator(READERS, CheckpointSchedule(10, tolerable_failures=99))
    assigner = SplitAssigner(READERS, can_grow=False)
    coordinator = Coordinator(READERS, {"s": assigner}, options, checkpoints)
    coordinator.start({"s": SPLITS})
    return coordinator


def wrote(name: str, **positions: int) -> Snapshot:
    progress = {Split("s", split): Progress(at) for split, at in positions.items()}
    return Snapshot(progress, handle={"file": name})


def lose(coordinator: Coordinator, *regions: frozenset[SubtaskId]) -> list[CoordinatorAction]:
    return coordinator.receive(RegionsLost(1, frozenset().union(*regions), LOSS), 15)


def test_lost_regions_restart_and_output_of_living_ones_is_carried() -> None:
    coordinator = job()
    coordinator.tick(10)
    coordinator.receive(SnapshotAcknowledged(P, 1, wrote("p")), 11)
    coordinator.receive(SnapshotAcknowledged(Q, 1, wrote("q")), 12)
    assert lose(coordinator, REGIONS[1]) == [
        CheckpointFailed(1, LOSS.message),
        AbortOutput(Q, {"file": "q"}),
        RestartRegions(1, (Q, R), None, LOSS),
    ]
    assert coordinator.receive(SnapshotAcknowledged(T, 1, wrote("t")), 16) == []
    assert coordinator.tick(50) == []
    b, c, f, g = (Split("s", name) for name in "bcfg")
    assert coordinator.receive(RegionsReady(1, RestoredState()), 60) == [
        Deploy(1, (Q, R), RestoredState()),
        AssignSplits(Q, ((b, Progress()), (f, Progress())), is_last=True),
        AssignSplits(R, ((c, Progress()), (g, Progress())), is_last=True),
        TriggerCheckpoint(2),
    ]
    for subtask in (P, Q, R):
        coordinator.receive(SnapshotAcknowledged(subtask, 2, Snapshot()), 61)
    (manifest,) = coordinator.receive(SnapshotAcknowledged(T, 2, Snapshot()), 61)
    assert isinstance(manifest, WriteManifest)
    assert manifest.handles == ((P, {"file": "p"}), (T, {"file": "t"}))


def test_splits_are_read_from_the_last_complete_checkpoint() -> None:
    coordinator = job()
    coordinator.tick(10)
    for subtask in READERS:
        coordinator.receive(SnapshotAcknowledged(subtask, 1, Snapshot()), 11)
    assert lose(coordinator, REGIONS[0]) == []  # the manifest is being written
    coordinator.receive(ManifestWritten(1), 16)
    assert coordinator.receive(CommitRecorded(1), 17) == [RestartRegions(1, (P,), 1, LOSS)]
    restored = RestoredState({"s": {Split("s", "a"): Progress(3)}})
    _, assigned = coordinator.receive(RegionsReady(1, restored), 18)
    a, e = Split("s", "a"), Split("s", "e")
    assert assigned == AssignSplits(P, ((a, Progress(3)), (e, Progress())), is_last=True)


def test_late_events_of_lost_subtasks_count_for_nothing() -> None:
    coordinator = job()
    lose(coordinator, REGIONS[1])
    finished = coordinator.receive(SubtaskFinished(R, wrote("r")), 16)
    assert finished == [AbortOutput(R, {"file": "r"})]
    declined = coordinator.receive(SnapshotDeclined(R, 1, "no room", {"file": "n"}), 16)
    assert declined == [AbortOutput(R, {"file": "n"})]
    assert coordinator.receive(SubtaskFailed(R, Failure("no peer", "x")), 16) == []
    assert coordinator.state == "running"


def test_a_subtask_that_finished_before_the_loss_answers_checkpoints_again() -> None:
    coordinator = job()
    coordinator.receive(SubtaskFinished(Q, wrote("q")), 1)
    assert AbortOutput(Q, {"file": "q"}) in lose(coordinator, REGIONS[1])
    coordinator.receive(RegionsReady(1, RestoredState()), 60)
    for subtask in (P, R, T):
        assert coordinator.receive(SnapshotAcknowledged(subtask, 1, Snapshot()), 61) == []
    (manifest,) = coordinator.receive(SnapshotAcknowledged(Q, 1, Snapshot()), 61)
    assert isinstance(manifest, WriteManifest)


def test_another_loss_begins_the_restart_again_with_the_regions_of_both() -> None:
    coordinator = job()
    lose(coordinator, REGIONS[0])
    assert lose(coordinator, REGIONS[0]) == [RestartRegions(2, (P,), None, LOSS)]
    assert lose(coordinator, REGIONS[1]) == [RestartRegions(3, (P, Q, R), None, LOSS)]
    assert coordinator.receive(RegionsReady(2, RestoredState()), 16) == []
    deployed = coordinator.receive(RegionsReady(3, RestoredState()), 16)
    assert deployed[0] == Deploy(1, (P, Q, R), RestoredState())
    assert coordinator.receive(RegionsReady(3, RestoredState()), 16) == []


def test_the_attempt_fails_when_nothing_is_left_or_the_job_ends() -> None:
    whole, parts, stopped, stopping, draining = (job() for _ in range(5))
    lose(parts, *REGIONS[:2])
    lose(stopping, REGIONS[0])
    stopped.stop(1)
    draining.stop(1, drains=True)
    ends = [
        lose(whole, *REGIONS),
        lose(parts, REGIONS[2]),
        lose(stopped, REGIONS[0]),
        stopping.stop(16),
        lose(draining, REGIONS[0]),
    ]
    assert all(messages == [Cancel()] for messages in ends)
    assert all(each.failure == LOSS for each in (whole, parts, stopped, stopping, draining))


def test_a_failed_commit_of_a_lost_subtask_fails_the_attempt() -> None:
    coordinator = job()
    coordinator.tick(10)
    for subtask in READERS:
        coordinator.receive(SnapshotAcknowledged(subtask, 1, wrote("x")), 11)
    coordinator.receive(ManifestWritten(1), 12)
    lose(coordinator, REGIONS[0])
    assert coordinator.receive(SubtaskFailed(P, Failure("disk full", "out")), 16) == [Cancel()]


def test_a_request_waits_for_the_end_of_the_restart() -> None:
    coordinator = job()
    lose(coordinator, REGIONS[0])
    assert coordinator.request_checkpoint(2) == (1, [])
    assert coordinator.receive(RegionsReady(1, RestoredState()), 3)[-1] == TriggerCheckpoint(1)


def test_a_restarted_reader_gets_the_drift_limit() -> None:
    coordinator = job(s=WatermarkAlignment(10))
    coordinator.receive(WatermarkReport(P, 5), 1)
    coordinator.receive(WatermarkReport(Q, 50), 1)
    assert SetDriftLimit("s", 60) in lose(coordinator, REGIONS[0])
    assert SetDriftLimit("s", 60) in coordinator.receive(RegionsReady(1, RestoredState()), 3)


@dataclass
class Reader:
    """A running subtask: it reads its splits, and writes each row to its output."""

    positions: dict[Split, int] = field(default_factory=dict)
    rows: list[str] = field(default_factory=list)
    """The rows that were written since output was last prepared."""
    barriers: list[int] = field(default_factory=list)
    is_lost: bool = False
    """Whether a peer in its region was lost, so that it ends with it."""

    def read(self) -> None:
        split = min(self.positions, key=lambda each: self.positions[each])
        if self.positions[split] < ROWS_OF_SPLIT:
            self.rows.append(f"{split.name}{self.positions[split]}")
            self.positions[split] += 1

    @property
    def is_at_end(self) -> bool:
        return all(at == ROWS_OF_SPLIT for at in self.positions.values())

    def prepare(self) -> Snapshot:
        rows, self.rows = self.rows, []
        progress = {split: Progress(at) for split, at in self.positions.items()}
        return Snapshot(progress, handle={"rows": rows} if rows else None)


@dataclass
class Job:
    """A job on workers that die: everything around a coordinator, in one thread."""

    random: random.Random
    coordinator: Coordinator = field(default_factory=job)
    now: float = 0.0
    readers: dict[SubtaskId, Reader] = field(default_factory=dict)
    manifest: WriteManifest | None = None
    """The manifest that is being written."""
    manifests: dict[int | None, WriteManifest] = field(default_factory=dict)
    commits: list[CommitOutput] = field(default_factory=list)
    record: OutputCommitted | None = None
    restart: RestartRegions | None = None
    open_output: list[Handle] = field(default_factory=list)
    """Prepared output that is neither committed nor aborted."""
    committed_rows: list[str] = field(default_factory=list)
    restarts: int = 0

    def __post_init__(self) -> None:
        self.deliver([Deploy(1, READERS)])
        for number, split in enumerate(SPLITS):
            self.readers[READERS[number % 4]].positions[split] = 0

    def send(self, event: CoordinatorEvent) -> None:
        self.deliver(self.coordinator.receive(event, self.now))

    def deliver(self, messages: Sequence[CoordinatorAction]) -> None:
        for message in messages:
            match message:
                case Deploy(_, subtasks):
                    assert not self.readers.keys() & set(subtasks)
                    self.readers |= {subtask: Reader() for subtask in subtasks}
                case AssignSplits(subtask, splits):
                    for split, progress in splits:
                        self.readers[subtask].positions[split] = int(progress.position or 0)
                case TriggerCheckpoint(number):
                    for reader in self.readers.values():
                        reader.barriers.append(number)
                case WriteManifest():
                    self.manifest = message
                case CommitOutput():
                    self.commits.append(message)
                case AbortOutput(_, handle):
                    self.open_output.remove(handle)
                case OutputCommitted():
                    self.record = message
                case RestartRegions():
                    self.restart = message

    def prepare(self, reader: Reader) -> Snapshot:
        snapshot = reader.prepare()
        if snapshot.handle is not None:
            self.open_output.append(snapshot.handle)
        return snapshot

    def turn(self, *, loses: bool) -> None:
        """Let one thing happen that can happen now."""
        self.now += 1
        turns = [self.tick, self.run_reader, self.run_reader, self.write_manifest, self.commit]
        turns += [self.record_commits, self.make_ready, *([self.lose] if loses else [])]
        self.random.choice(turns)()

    def tick(self) -> None:
        self.deliver(self.coordinator.tick(self.now))

    def run_reader(self) -> None:
        if not self.readers:
            return
        subtask = self.random.choice(sorted(self.readers))
        reader = self.readers[subtask]
        if reader.barriers and self.random.random() < 0.7:
            number = reader.barriers.pop(0)
            self.send(SnapshotAcknowledged(subtask, number, self.prepare(reader)))
        elif reader.is_at_end:
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
            self.manifests[manifest.number] = manifest
            self.send(ManifestWritten(manifest.number))

    def commit(self) -> None:
        if self.commits:
            message = self.commits.pop(0)
            self.open_output.remove(message.handle)
            self.committed_rows += message.handle["rows"]  # type: ignore[arg-type]
            self.send(SubtaskCommitted(message.subtask))

    def record_commits(self) -> None:
        if self.record is not None:
            number, self.record = self.record.number, None
            self.send(CommitRecorded(number))

    def lose(self) -> None:
        """Lose the worker of a reader; the other readers of its region end with it, but later."""
        region = self.random.choice(REGIONS)
        if self.random.random() > 0.15 or self.coordinator.state != "running":
            return
        self.readers.pop(min(region), None)
        self.send(RegionsLost(1, region, LOSS))

    def make_ready(self) -> None:
        if self.restart is None:
            return
        restart, self.restart = self.restart, None
        self.restarts += 1
        for subtask in restart.subtasks:
            self.readers.pop(subtask, None)
        manifest = self.manifests.get(restart.checkpoint)
        snapshots = manifest.snapshots.values() if manifest else ()
        splits = {split: at for snapshot in snapshots for split, at in snapshot.splits.items()}
        self.send(RegionsReady(restart.restart, RestoredState({"s": splits})))


def run_job(seed: int) -> Job:
    """Return a job after its end, or after the loss of all regions."""
    run = Job(random.Random(seed))
    for turn in range(20_000):
        if run.coordinator.state not in ("running", "ending"):
            break
        run.turn(loses=turn < 150)
    return run


@pytest.mark.parametrize("seed", range(400))
def test_each_row_is_committed_once_whenever_workers_die(seed: int) -> None:
    run = run_job(seed)
    assert len(run.committed_rows) == len(set(run.committed_rows))
    if run.coordinator.state == "failing":  # only output that a manifest may name is left
        named = [handle for _, handle in run.manifest.handles] if run.manifest else []
        named += [commit.handle for commit in run.commits]
        assert all(handle in named for handle in run.open_output)
        return
    assert run.coordinator.state == "done"
    assert sorted(run.committed_rows) == sorted(
        f"{split.name}{at}" for split in SPLITS for at in range(ROWS_OF_SPLIT)
    )
    assert run.open_output == []


def test_most_random_jobs_restart_regions_and_reach_their_end() -> None:
    runs = [run_job(seed) for seed in range(100)]
    assert sum(run.coordinator.state == "done" and run.restarts > 1 for run in runs) > 20
    assert any(run.manifests and run.restarts for run in runs)
