"""Regions of a lost worker restart alone: what the coordinator answers."""

from __future__ import annotations

from headrace.core.api.splits import Failure, Progress, Split, SubtaskId
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
    CheckpointFailed,
    CommitRecorded,
    CoordinatorAction,
    Deploy,
    ManifestWritten,
    RegionsLost,
    RegionsReady,
    RestartRegions,
    RestoredState,
    SetDriftLimit,
    Snapshot,
    SnapshotAcknowledged,
    SnapshotDeclined,
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
    whole, parts, stopped, drained, draining = (job() for _ in range(5))
    lose(parts, *REGIONS[:2])
    lose(drained, REGIONS[0])
    stopped.stop(1)
    draining.stop(1, drains=True)
    ends = [
        lose(whole, *REGIONS),
        lose(parts, REGIONS[2]),
        lose(stopped, REGIONS[0]),
        drained.stop(16, drains=True),
        lose(draining, REGIONS[0]),
    ]
    assert all(messages == [Cancel()] for messages in ends)
    assert all(each.failure == LOSS for each in (whole, parts, stopped, drained, draining))


def test_a_job_that_is_stopped_during_a_restart_ends_with_the_last_checkpoint() -> None:
    coordinator = job()
    lose(coordinator, REGIONS[0])
    assert coordinator.stop(16) == [Cancel()]
    assert coordinator.receive(RegionsReady(1, RestoredState()), 17) == []
    late = coordinator.receive(SubtaskFinished(Q, wrote("q")), 17)
    assert late == [AbortOutput(Q, {"file": "q"})]
    assert coordinator.receive(AttemptCancelled(), 18) == []
    assert (coordinator.state, coordinator.failure) == ("done", None)
    assert coordinator.is_stopped


def test_a_stop_during_a_restart_waits_for_the_checkpoint_that_is_being_committed() -> None:
    coordinator = job()
    coordinator.tick(10)
    for subtask in READERS:
        coordinator.receive(SnapshotAcknowledged(subtask, 1, Snapshot()), 11)
    lose(coordinator, REGIONS[0])
    assert coordinator.stop(16) == []
    coordinator.receive(ManifestWritten(1), 17)
    assert coordinator.receive(CommitRecorded(1), 18) == [Cancel()]
    assert coordinator.state == "cancelling"


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


def test_a_requested_checkpoint_that_is_given_up_is_taken_after_the_restart() -> None:
    coordinator = job()
    assert coordinator.request_checkpoint(5) == (1, [TriggerCheckpoint(1)])
    failed, *_ = lose(coordinator, REGIONS[0])
    assert failed == CheckpointFailed(1, LOSS.message, is_repeated=True)
    messages = coordinator.receive(RegionsReady(1, RestoredState()), 16)
    assert messages[-1] == TriggerCheckpoint(2)


def test_a_restarted_reader_gets_the_drift_limit() -> None:
    coordinator = job(s=WatermarkAlignment(10))
    coordinator.receive(WatermarkReport(P, 5), 1)
    coordinator.receive(WatermarkReport(Q, 50), 1)
    assert SetDriftLimit("s", 60) in lose(coordinator, REGIONS[0])
    assert SetDriftLimit("s", 60) in coordinator.receive(RegionsReady(1, RestoredState()), 3)


def test_rows_that_restarted_subtasks_had_counted_are_added_to_those_after_it() -> None:
    coordinator = job()
    counted = [Snapshot(counts={"parts": {"s": [n, n, 0]}}) for n in range(6)]
    for number in (1, 2):
        coordinator.tick(10 * number)
        for subtask in READERS:
            coordinator.receive(SnapshotAcknowledged(subtask, number, counted[number]), 11)
        coordinator.receive(ManifestWritten(number), 11)
        coordinator.receive(CommitRecorded(number), 11)
    for restart in (1, 2):  # the second one before another checkpoint: from the same snapshots
        lose(coordinator, REGIONS[1])
        coordinator.receive(RegionsReady(restart, RestoredState()), 20 + restart * 15)
    for subtask, snapshot in zip(READERS, counted[2:], strict=True):
        messages = coordinator.receive(SnapshotAcknowledged(subtask, 4, snapshot), 51)
    (manifest,) = messages
    assert isinstance(manifest, WriteManifest)
    assert manifest.earlier_snapshots == (counted[2], counted[2])
