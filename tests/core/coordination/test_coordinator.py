"""The job's state machine: messages in, messages out."""

from __future__ import annotations

from headrace.core.api.splits import Failure, Progress, Split, SubtaskId
from headrace.core.coordination.coordinator import Coordinator
from headrace.core.coordination.messages import (
    AbortOutput,
    AssignSplits,
    AttemptCancelled,
    Cancel,
    CommitOutput,
    Deploy,
    SetDriftLimit,
    Snapshot,
    StopSources,
    SubtaskCommitted,
    SubtaskFailed,
    SubtaskFinished,
    WatermarkReport,
)
from headrace.core.coordination.split_assignment import SplitAssigner
from headrace.core.coordination.watermark_alignment import WatermarkAlignment

A, B, C = SubtaskId(0, 0), SubtaskId(0, 1), SubtaskId(1, 0)
SPLITS = [Split("s", name) for name in "xyz"]


def started() -> Coordinator:
    coordinator = Coordinator((A, B), {"s": SplitAssigner((A, B), can_grow=False)})
    coordinator.start({"s": SPLITS})
    return coordinator


def test_splits_are_dealt_out_in_turn() -> None:
    x, y, z = SPLITS
    assert Coordinator((A, B), {"s": SplitAssigner((A, B), can_grow=False)}).start(
        {"s": SPLITS}
    ) == [
        Deploy(1, (A, B)),
        AssignSplits(A, ((x, Progress()), (z, Progress())), is_last=True),
        AssignSplits(B, ((y, Progress()),), is_last=True),
    ]


def growing(*splits: Split) -> Coordinator:
    coordinator = Coordinator((A, B), {"s": SplitAssigner((A, B), can_grow=True)})
    coordinator.start({"s": splits})
    return coordinator


def test_a_subtask_without_a_split_learns_that_more_may_come() -> None:
    job = Coordinator((A, B), {"s": SplitAssigner((A, B), can_grow=True)})
    assert job.start({}) == [
        Deploy(1, (A, B)),
        AssignSplits(A, (), is_last=False),
        AssignSplits(B, (), is_last=False),
    ]


def test_splits_that_are_discovered_later_are_dealt_out_once_and_in_turn() -> None:
    x, y, z = SPLITS
    job = growing(x)
    assert job.assign_discovered("s", [x, y, z]) == [
        AssignSplits(A, ((z, Progress()),), is_last=False),
        AssignSplits(B, ((y, Progress()),), is_last=False),
    ]
    assert job.assign_discovered("s", [z, y, x]) == []


def test_a_split_that_is_gone_for_a_while_is_not_dealt_out_again() -> None:
    x, y, _ = SPLITS
    job = growing(x)
    assert job.assign_discovered("s", []) == []
    assert job.assign_discovered("s", [x, y]) == [
        AssignSplits(B, ((y, Progress()),), is_last=False)
    ]


def test_no_splits_are_assigned_after_a_stop_or_a_failure() -> None:
    stopped, failed = growing(), growing()
    stopped.stop()
    failed.receive(SubtaskFailed(A, Failure("first", "a")))
    for job in (stopped, failed):
        assert not job.can_assign_splits("s")
        assert job.assign_discovered("s", SPLITS) == []


def test_a_subtask_that_has_finished_gets_no_split() -> None:
    x, y, _ = SPLITS
    job = growing()
    job.receive(SubtaskFinished(A))
    assert job.assign_discovered("s", [x, y]) == [
        AssignSplits(B, ((x, Progress()), (y, Progress())), is_last=False)
    ]
    job.receive(SubtaskFinished(B))
    assert not job.can_assign_splits("s")
    assert job.assign_discovered("s", SPLITS) == []


def test_what_cannot_be_discovered_fails_the_job() -> None:
    job = growing()
    assert job.fail(Failure("no folder", "s")) == [Cancel()]
    assert job.fail(Failure("again", "s")) == []
    job.receive(AttemptCancelled())
    assert (job.state, job.failure) == ("failed", Failure("no folder", "s"))


def test_output_is_committed_when_all_have_finished_and_the_job_is_done_after_that() -> None:
    job = started()
    assert job.receive(SubtaskFinished(A, Snapshot(handle={"file": "a"}))) == []
    assert job.receive(SubtaskFinished(B, Snapshot(handle={"file": "b"}))) == [
        CommitOutput(A, {"file": "a"}),
        CommitOutput(B, {"file": "b"}),
    ]
    assert job.receive(SubtaskCommitted(B)) == []
    assert not job.is_over
    assert job.receive(SubtaskCommitted(A)) == []
    assert job.state == "done"


def test_a_job_that_prepared_nothing_is_done_at_once() -> None:
    job = started()
    job.receive(SubtaskFinished(A))
    assert job.receive(SubtaskFinished(B)) == []
    assert job.state == "done"


def test_the_first_failure_is_reported() -> None:
    job = started()
    first, second = Failure("first", "a"), Failure("second", "b")
    assert job.receive(SubtaskFinished(A, Snapshot(handle={"file": "a"}))) == []
    assert job.receive(SubtaskFailed(A, first)) == [Cancel(), AbortOutput(A, {"file": "a"})]
    assert job.receive(SubtaskFailed(B, second)) == []
    assert job.receive(SubtaskFinished(B)) == []
    assert not job.is_over
    job.receive(AttemptCancelled())
    assert (job.state, job.failure) == ("failed", first)


def test_a_failing_commit_fails_the_job() -> None:
    job = started()
    job.receive(SubtaskFinished(A, Snapshot(handle={"file": "a"})))
    job.receive(SubtaskFinished(B))
    answer = job.receive(SubtaskFailed(A, Failure("disk full", "out")))
    assert answer == [Cancel(), AbortOutput(A, {"file": "a"})]
    job.receive(AttemptCancelled())
    assert job.state == "failed"


def test_a_stop_is_said_once_and_what_was_read_is_finished() -> None:
    job = started()
    assert job.stop() == [StopSources()]
    assert job.stop() == []
    job.receive(SubtaskFinished(A))
    job.receive(SubtaskFinished(B))
    assert job.state == "done"
    assert job.is_stopped


def test_the_drift_limit_follows_the_slowest_split() -> None:
    dealings = {
        "s": SplitAssigner((A,), can_grow=False),
        "t": SplitAssigner((B, C), can_grow=False),
    }
    job = Coordinator((A, B, C), dealings, {"t": WatermarkAlignment(10)})
    job.start({"s": SPLITS, "t": []})
    assert job.receive(WatermarkReport(B, 100)) == [SetDriftLimit("t", 110)]
    assert job.receive(WatermarkReport(C, 50)) == [SetDriftLimit("t", 60)]
    assert job.receive(WatermarkReport(A, 1)) == []
    assert job.receive(SubtaskFinished(C)) == [SetDriftLimit("t", 110)]
    assert job.receive(SubtaskFinished(A)) == []
    assert job.receive(SubtaskFinished(B)) == []
    assert job.state == "done"
