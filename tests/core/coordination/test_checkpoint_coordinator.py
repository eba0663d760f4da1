"""Checkpoints as a state machine: messages and times in, messages out."""

from __future__ import annotations

from collections.abc import Sequence

from headrace.core.api.splits import Failure, Progress, Split, SubtaskId
from headrace.core.coordination.checkpoint_coordinator import (
    CheckpointCoordinator,
    CheckpointSchedule,
)
from headrace.core.coordination.coordinator import Coordinator
from headrace.core.coordination.messages import (
    AbortOutput,
    AttemptCancelled,
    Cancel,
    CheckpointCompleted,
    CheckpointFailed,
    CommitOutput,
    CommitRecorded,
    CoordinatorAction,
    ManifestFailed,
    ManifestWritten,
    OutputCommitted,
    PauseSources,
    Snapshot,
    SnapshotAcknowledged,
    SnapshotDeclined,
    StopSources,
    SubtaskCommitted,
    SubtaskFailed,
    SubtaskFinished,
    TriggerCheckpoint,
    WatermarkReport,
    WriteManifest,
)
from headrace.core.coordination.split_assignment import SplitAssigner

SOURCE, SINK = SubtaskId(0, 0), SubtaskId(1, 0)
SPLIT = Split("s", "x")
READ = Snapshot({SPLIT: Progress(5)})
BARE = Snapshot()


def wrote(name: str) -> Snapshot:
    return Snapshot(handle={"file": name})


def job(every_s: float | None = 10, tolerable: int = 3, pause_s: float = 0) -> Coordinator:
    rhythm = CheckpointSchedule(every_s, pause_s, timeout_s=60, tolerable_failures=tolerable)
    checkpoints = CheckpointCoordinator((SOURCE, SINK), rhythm)
    dealing = SplitAssigner((SOURCE,), can_grow=False)
    coordinator = Coordinator((SOURCE, SINK), {"s": dealing}, {}, checkpoints)
    coordinator.start({"s": [SPLIT]}, now=100)
    return coordinator


def taken(coordinator: Coordinator, number: int, name: str, now: float) -> None:
    """Take a checkpoint, from its trigger to its commit record."""
    coordinator.receive(SnapshotAcknowledged(SOURCE, number, READ), now)
    coordinator.receive(SnapshotAcknowledged(SINK, number, wrote(name)), now)
    visible(coordinator, coordinator.receive(ManifestWritten(number), now), now)


def visible(
    coordinator: Coordinator, kept: Sequence[CoordinatorAction], now: float
) -> list[CoordinatorAction]:
    """Answer all commits and the commit record. Return the messages that follow."""
    said = list(kept)
    for message in kept:
        if isinstance(message, CommitOutput):
            said += coordinator.receive(SubtaskCommitted(message.subtask), now)
    numbers = [message.number for message in said if isinstance(message, OutputCommitted)]
    assert len(numbers) == 1
    return coordinator.receive(CommitRecorded(numbers[0]), now)


def test_a_checkpoint_is_written_when_all_acknowledge_and_then_commits() -> None:
    coordinator = job()
    assert coordinator.next_deadline() == 110
    assert coordinator.tick(109) == []
    assert coordinator.tick(110) == [TriggerCheckpoint(1)]
    assert coordinator.receive(SnapshotAcknowledged(SOURCE, 1, READ), 111) == []
    assert coordinator.receive(SnapshotAcknowledged(SINK, 1, wrote("a")), 112) == [
        WriteManifest(1, {SOURCE: READ, SINK: BARE}, ((SINK, {"file": "a"}),))
    ]
    assert coordinator.next_deadline() is None
    assert coordinator.receive(ManifestWritten(1), 113) == [
        CheckpointCompleted(1, 3),
        CommitOutput(SINK, {"file": "a"}),
    ]
    assert coordinator.next_deadline() is None
    assert coordinator.receive(SubtaskCommitted(SINK), 114) == [OutputCommitted(1)]
    assert coordinator.next_deadline() is None
    assert coordinator.receive(CommitRecorded(1), 115) == []
    assert coordinator.next_deadline() == 120


def test_no_checkpoint_starts_before_the_last_commit_is_recorded() -> None:
    coordinator = job(every_s=1)
    coordinator.tick(101)
    coordinator.receive(SnapshotAcknowledged(SOURCE, 1, READ), 102)
    coordinator.receive(SnapshotAcknowledged(SINK, 1, wrote("a")), 102)
    kept = coordinator.receive(ManifestWritten(1), 103)
    assert coordinator.tick(200) == []
    assert coordinator.request_checkpoint(200) == (2, [])
    assert visible(coordinator, kept, 201) == []
    assert coordinator.next_deadline() == 201
    assert coordinator.tick(201) == [TriggerCheckpoint(2)]


def test_the_next_checkpoint_waits_for_the_pause_after_the_last() -> None:
    coordinator = job(every_s=1, pause_s=5)
    coordinator.tick(101)
    taken(coordinator, 1, "a", 108)
    assert coordinator.next_deadline() == 113


def test_what_was_prepared_for_a_checkpoint_that_fails_is_committed_by_the_next() -> None:
    coordinator = job()
    coordinator.tick(110)
    coordinator.receive(SnapshotAcknowledged(SINK, 1, wrote("a")), 111)
    failed = coordinator.receive(SnapshotDeclined(SOURCE, 1, "the disk is full"), 112)
    assert failed == [CheckpointFailed(1, "the disk is full")]
    assert coordinator.tick(120) == [TriggerCheckpoint(2)]
    coordinator.receive(SnapshotAcknowledged(SOURCE, 2, READ), 121)
    kept = coordinator.receive(SnapshotAcknowledged(SINK, 2, wrote("b")), 121)
    assert kept == [
        WriteManifest(2, {SOURCE: READ, SINK: BARE}, ((SINK, {"file": "a"}), (SINK, {"file": "b"})))
    ]
    assert coordinator.receive(ManifestFailed(2, "the disk is full"), 122) == [
        CheckpointFailed(2, "the disk is full")
    ]
    coordinator.tick(130)
    coordinator.receive(SnapshotAcknowledged(SOURCE, 3, READ), 131)
    coordinator.receive(SnapshotAcknowledged(SINK, 3, BARE), 131)
    assert coordinator.receive(ManifestWritten(3), 132) == [
        CheckpointCompleted(3, 2),
        CommitOutput(SINK, {"file": "a"}),
        CommitOutput(SINK, {"file": "b"}),
    ]


def test_an_answer_that_comes_too_late_counts_for_its_output_alone() -> None:
    coordinator = job()
    coordinator.tick(110)
    assert coordinator.tick(170) == [
        CheckpointFailed(1, "2 subtasks have not answered within 60 s")
    ]
    assert coordinator.receive(SnapshotAcknowledged(SINK, 1, wrote("a")), 171) == []
    coordinator.tick(180)
    taken(coordinator, 2, "b", 181)
    assert coordinator.checkpoints is not None
    assert coordinator.checkpoints.unlisted_output == ()


def test_too_many_failures_in_a_row_fail_the_job_and_a_success_resets_them() -> None:
    coordinator = job(tolerable=1)
    coordinator.tick(110)
    coordinator.receive(SnapshotDeclined(SOURCE, 1, "full"), 111)
    coordinator.tick(120)
    taken(coordinator, 2, "a", 121)
    coordinator.tick(130)
    coordinator.receive(SnapshotDeclined(SOURCE, 3, "full"), 131)
    coordinator.tick(140)
    assert coordinator.receive(SnapshotDeclined(SOURCE, 4, "full"), 141) == [
        CheckpointFailed(4, "full"),
        Cancel(),
    ]
    assert coordinator.failure is not None
    assert coordinator.failure.message == "2 checkpoints in a row failed: full"
    assert coordinator.failure.is_transient, "room may be made, however often it has failed"


def test_a_subtask_that_has_ended_answers_all_that_it_has_not_answered() -> None:
    coordinator = job()
    coordinator.tick(110)
    coordinator.receive(SubtaskFinished(SOURCE, READ), 111)
    assert coordinator.receive(SnapshotAcknowledged(SINK, 1, BARE), 112) == [
        WriteManifest(1, {SOURCE: READ, SINK: BARE}, ())
    ]
    visible(coordinator, coordinator.receive(ManifestWritten(1), 113), 113)
    coordinator.tick(120)
    assert coordinator.receive(SnapshotAcknowledged(SINK, 2, BARE), 121) == [
        WriteManifest(2, {SOURCE: READ, SINK: BARE}, ())
    ]


def test_output_written_after_the_snapshot_is_of_the_next_checkpoint() -> None:
    coordinator = job()
    coordinator.tick(110)
    coordinator.receive(SnapshotAcknowledged(SINK, 1, wrote("a")), 111)
    coordinator.receive(SubtaskFinished(SINK, wrote("b")), 112)
    assert coordinator.receive(SnapshotAcknowledged(SOURCE, 1, READ), 113) == [
        WriteManifest(1, {SOURCE: READ, SINK: BARE}, ((SINK, {"file": "a"}),))
    ]
    kept = coordinator.receive(ManifestWritten(1), 114)
    assert kept[1:] == [CommitOutput(SINK, {"file": "a"})]
    visible(coordinator, kept, 115)
    coordinator.tick(120)
    assert coordinator.receive(SnapshotAcknowledged(SOURCE, 2, READ), 121) == [
        WriteManifest(2, {SOURCE: READ, SINK: BARE}, ((SINK, {"file": "b"}),))
    ]


def test_output_written_after_the_snapshot_is_aborted_at_a_failure() -> None:
    coordinator = job()
    coordinator.tick(110)
    coordinator.receive(SnapshotAcknowledged(SINK, 1, wrote("a")), 111)
    coordinator.receive(SubtaskFinished(SINK, wrote("b")), 112)
    failed = coordinator.receive(SubtaskFailed(SOURCE, Failure("bad", "s")), 113)
    assert failed == [Cancel(), AbortOutput(SINK, {"file": "a"}), AbortOutput(SINK, {"file": "b"})]


def test_the_end_takes_a_last_checkpoint_and_is_over_when_its_output_is_committed() -> None:
    coordinator = job(every_s=None)
    coordinator.receive(SubtaskFinished(SOURCE, READ), 111)
    assert coordinator.receive(SubtaskFinished(SINK, wrote("a")), 112) == [
        WriteManifest(1, {SOURCE: READ, SINK: BARE}, ((SINK, {"file": "a"}),), is_final=True)
    ]
    coordinator.receive(ManifestWritten(1), 113)
    assert not coordinator.is_over
    assert coordinator.receive(SubtaskCommitted(SINK), 114) == [OutputCommitted(1)]
    assert not coordinator.is_over
    coordinator.receive(CommitRecorded(1), 115)
    assert coordinator.state == "done"
    assert coordinator.is_complete


def test_a_checkpoint_that_is_on_its_way_at_the_end_is_not_the_last() -> None:
    coordinator = job()
    coordinator.tick(110)
    coordinator.receive(SnapshotAcknowledged(SOURCE, 1, READ), 111)
    coordinator.receive(
        SubtaskFinished(SOURCE, Snapshot({SPLIT: Progress(9, is_finished=True)})), 112
    )
    coordinator.receive(SnapshotAcknowledged(SINK, 1, wrote("a")), 113)
    coordinator.receive(SubtaskFinished(SINK, wrote("b")), 114)
    assert visible(coordinator, coordinator.receive(ManifestWritten(1), 115), 115) == [
        WriteManifest(
            2,
            {SOURCE: Snapshot({SPLIT: Progress(9, is_finished=True)}), SINK: BARE},
            ((SINK, {"file": "b"}),),
            is_final=True,
        )
    ]


def test_a_stop_pauses_sources_and_ends_after_a_committed_checkpoint() -> None:
    coordinator = job()
    assert coordinator.stop(105) == [PauseSources(), TriggerCheckpoint(1)]
    assert coordinator.stop(105) == []
    coordinator.receive(SnapshotAcknowledged(SOURCE, 1, READ), 106)
    coordinator.receive(SnapshotAcknowledged(SINK, 1, wrote("a")), 106)
    assert visible(coordinator, coordinator.receive(ManifestWritten(1), 106), 107) == [Cancel()]
    coordinator.receive(AttemptCancelled(), 108)
    assert (coordinator.state, coordinator.is_stopped, coordinator.is_complete) == (
        "done",
        True,
        False,
    )


def test_a_stop_lets_a_checkpoint_finish_and_takes_another() -> None:
    coordinator = job()
    coordinator.tick(110)
    assert coordinator.stop(111) == [PauseSources()]
    coordinator.receive(SnapshotAcknowledged(SOURCE, 1, READ), 112)
    coordinator.receive(SnapshotAcknowledged(SINK, 1, BARE), 112)
    assert coordinator.receive(ManifestWritten(1), 113) == [
        CheckpointCompleted(1, 3),
        OutputCommitted(1),
    ]
    assert coordinator.receive(CommitRecorded(1), 114) == [TriggerCheckpoint(2)]


def test_a_stop_fails_when_too_many_of_its_checkpoints_do() -> None:
    coordinator = job(tolerable=1)
    coordinator.stop(105)
    assert coordinator.receive(SnapshotDeclined(SINK, 1, "full"), 106) == [
        CheckpointFailed(1, "full"),
        TriggerCheckpoint(2),
    ]
    assert Cancel() in coordinator.receive(SnapshotDeclined(SINK, 2, "full"), 107)
    assert coordinator.state == "failing"


def test_a_failure_aborts_only_what_no_manifest_can_name() -> None:
    coordinator = job()
    coordinator.tick(110)
    coordinator.receive(SnapshotAcknowledged(SINK, 1, wrote("a")), 111)
    coordinator.receive(SnapshotAcknowledged(SOURCE, 1, READ), 111)
    # The manifest is being written, and may be there.
    coordinator.receive(SubtaskFinished(SINK, wrote("b")), 112)
    assert coordinator.receive(SubtaskFailed(SOURCE, Failure("lost", "s")), 113) == [
        Cancel(),
        AbortOutput(SINK, {"file": "b"}),
    ]


def test_what_was_prepared_and_on_its_way_when_the_job_failed_is_aborted() -> None:
    coordinator = job()
    coordinator.tick(110)
    coordinator.fail(Failure("lost", "s"))
    late = coordinator.receive(SnapshotAcknowledged(SINK, 1, wrote("a")), 112)
    assert late == [AbortOutput(SINK, {"file": "a"})]
    assert coordinator.receive(SubtaskFinished(SINK, wrote("b")), 113) == [
        AbortOutput(SINK, {"file": "b"})
    ]
    assert coordinator.receive(SubtaskFinished(SOURCE, READ), 113) == []


def test_checkpoint_numbers_continue_from_the_restored_one() -> None:
    checkpoints = CheckpointCoordinator((SOURCE,), CheckpointSchedule(), number=7)
    assert checkpoints.begin_checkpoint(0) == [TriggerCheckpoint(8)]


def test_a_requested_checkpoint_starts_at_once_even_without_a_schedule() -> None:
    coordinator = job(every_s=None)
    assert coordinator.request_checkpoint(101) == (1, [TriggerCheckpoint(1)])
    taken(coordinator, 1, "a", 102)
    assert coordinator.next_deadline() is None


def test_a_checkpoint_requested_during_another_follows_without_pause() -> None:
    coordinator = job(pause_s=60)
    coordinator.tick(110)
    assert coordinator.request_checkpoint(111) == (2, [])
    taken(coordinator, 1, "a", 112)
    assert coordinator.next_deadline() == 112
    assert coordinator.tick(112) == [TriggerCheckpoint(2)]


def test_a_checkpoint_without_output_is_committed_once_written() -> None:
    coordinator = job()
    coordinator.request_checkpoint(101)
    coordinator.receive(SnapshotAcknowledged(SOURCE, 1, READ), 102)
    coordinator.receive(SnapshotAcknowledged(SINK, 1, BARE), 102)
    assert coordinator.receive(ManifestWritten(1), 103) == [
        CheckpointCompleted(1, 2),
        OutputCommitted(1),
    ]


def test_checkpoints_cannot_be_requested_after_a_stop_or_failure() -> None:
    stopped, failed = job(), job()
    stopped.stop(101)
    failed.fail(Failure("first", "s"))
    assert stopped.request_checkpoint(102) is None
    assert failed.request_checkpoint(102) is None
    assert (
        Coordinator((SOURCE,), {"s": SplitAssigner((SOURCE,), can_grow=False)}).request_checkpoint(
            102
        )
        is None
    )


def test_a_drained_job_takes_no_checkpoint_before_its_end_and_has_not_ended() -> None:
    coordinator = job()
    coordinator.tick(110)
    given_up = CheckpointFailed(1, "the job is drained")
    assert coordinator.stop(111, drains=True) == [given_up, StopSources(is_drain=True)]
    assert coordinator.next_deadline() is None
    coordinator.receive(SnapshotAcknowledged(SINK, 1, wrote("a")), 112)
    coordinator.receive(SubtaskFinished(SOURCE, READ), 113)
    kept = coordinator.receive(SubtaskFinished(SINK, wrote("b")), 114)
    handles = ((SINK, {"file": "a"}), (SINK, {"file": "b"}))
    assert kept == [
        WriteManifest(2, {SOURCE: READ, SINK: BARE}, handles, is_final=False, is_drained=True)
    ]
    coordinator.receive(ManifestWritten(2), 115)
    coordinator.receive(SubtaskCommitted(SINK), 116)
    assert coordinator.receive(SubtaskCommitted(SINK), 116) == [OutputCommitted(2)]
    coordinator.receive(CommitRecorded(2), 117)
    assert (coordinator.state, coordinator.is_stopped, coordinator.is_complete) == (
        "done",
        True,
        False,
    )


def test_failed_requests_and_a_drain_do_not_count_as_failures() -> None:
    coordinator = job(tolerable=0)
    coordinator.request_checkpoint(101)
    failed = coordinator.receive(SnapshotDeclined(SOURCE, 1, "the disk is full"), 102)
    assert failed == [CheckpointFailed(1, "the disk is full")]
    coordinator.tick(111)
    coordinator.stop(112, drains=True)
    assert coordinator.receive(WatermarkReport(SOURCE, 5), 113) == []
    assert coordinator.state == "running"
    assert coordinator.receive(SubtaskFinished(SOURCE, READ), 114) == []
    assert coordinator.failure is None
