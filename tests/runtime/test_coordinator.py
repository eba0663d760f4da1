"""The job's state machine: messages in, messages out."""

from __future__ import annotations

from headrace.core.coordinator import Coordinator
from headrace.core.dealing import Dealing
from headrace.core.drift import Drift
from headrace.core.messages import (
    Abort,
    Assign,
    Cancel,
    Cancelled,
    Commit,
    Committed,
    Deploy,
    Failed,
    Failure,
    Finished,
    Hold,
    Progress,
    Snapshot,
    Split,
    Stop,
    SubtaskId,
    WatermarkReport,
)

A, B, C = SubtaskId(0, 0), SubtaskId(0, 1), SubtaskId(1, 0)
SPLITS = [Split("s", name) for name in "xyz"]


def started() -> Coordinator:
    coordinator = Coordinator((A, B), {"s": Dealing((A, B), grows=False)})
    coordinator.start({"s": SPLITS})
    return coordinator


def test_splits_are_dealt_out_in_turn() -> None:
    x, y, z = SPLITS
    assert Coordinator((A, B), {"s": Dealing((A, B), grows=False)}).start({"s": SPLITS}) == [
        Deploy(1, (A, B)),
        Assign(A, ((x, Progress()), (z, Progress())), last=True),
        Assign(B, ((y, Progress()),), last=True),
    ]


def growing(*splits: Split) -> Coordinator:
    coordinator = Coordinator((A, B), {"s": Dealing((A, B), grows=True)})
    coordinator.start({"s": splits})
    return coordinator


def test_a_subtask_without_a_split_is_told_that_more_may_come() -> None:
    job = Coordinator((A, B), {"s": Dealing((A, B), grows=True)})
    assert job.start({}) == [
        Deploy(1, (A, B)),
        Assign(A, (), last=False),
        Assign(B, (), last=False),
    ]


def test_splits_that_are_discovered_later_are_dealt_out_once_and_in_turn() -> None:
    x, y, z = SPLITS
    job = growing(x)
    assert job.discovered("s", [x, y, z]) == [
        Assign(A, ((z, Progress()),), last=False),
        Assign(B, ((y, Progress()),), last=False),
    ]
    assert job.discovered("s", [z, y, x]) == []


def test_a_split_that_is_gone_for_a_while_is_not_dealt_out_again() -> None:
    x, y, _ = SPLITS
    job = growing(x)
    assert job.discovered("s", []) == []
    assert job.discovered("s", [x, y]) == [Assign(B, ((y, Progress()),), last=False)]


def test_nothing_is_dealt_out_behind_a_stop_or_a_failure() -> None:
    stopped, failed = growing(), growing()
    stopped.stop()
    failed.receive(Failed(A, Failure("first", "a")))
    for job in (stopped, failed):
        assert not job.reads("s")
        assert job.discovered("s", SPLITS) == []


def test_a_subtask_that_has_finished_gets_no_split() -> None:
    x, y, _ = SPLITS
    job = growing()
    job.receive(Finished(A))
    assert job.discovered("s", [x, y]) == [
        Assign(B, ((x, Progress()), (y, Progress())), last=False)
    ]
    job.receive(Finished(B))
    assert not job.reads("s")
    assert job.discovered("s", SPLITS) == []


def test_what_cannot_be_discovered_fails_the_job() -> None:
    job = growing()
    assert job.fail(Failure("no folder", "s")) == [Cancel()]
    assert job.fail(Failure("again", "s")) == []
    job.receive(Cancelled())
    assert (job.state, job.failure) == ("failed", Failure("no folder", "s"))


def test_output_is_committed_when_all_have_finished_and_the_job_is_done_after_that() -> None:
    job = started()
    assert job.receive(Finished(A, Snapshot(handle={"file": "a"}))) == []
    assert job.receive(Finished(B, Snapshot(handle={"file": "b"}))) == [
        Commit(A, {"file": "a"}),
        Commit(B, {"file": "b"}),
    ]
    assert job.receive(Committed(B)) == []
    assert not job.over
    assert job.receive(Committed(A)) == []
    assert job.state == "done"


def test_a_job_that_prepared_nothing_is_done_at_once() -> None:
    job = started()
    job.receive(Finished(A))
    assert job.receive(Finished(B)) == []
    assert job.state == "done"


def test_the_first_failure_is_the_one_that_is_told() -> None:
    job = started()
    first, second = Failure("first", "a"), Failure("second", "b")
    assert job.receive(Finished(A, Snapshot(handle={"file": "a"}))) == []
    assert job.receive(Failed(A, first)) == [Cancel(), Abort(A, {"file": "a"})]
    assert job.receive(Failed(B, second)) == []
    assert job.receive(Finished(B)) == []
    assert not job.over
    job.receive(Cancelled())
    assert (job.state, job.failure) == ("failed", first)


def test_a_failing_commit_fails_the_job() -> None:
    job = started()
    job.receive(Finished(A, Snapshot(handle={"file": "a"})))
    job.receive(Finished(B))
    answer = job.receive(Failed(A, Failure("disk full", "out")))
    assert answer == [Cancel(), Abort(A, {"file": "a"})]
    job.receive(Cancelled())
    assert job.state == "failed"


def test_a_stop_is_said_once_and_what_was_read_is_finished() -> None:
    job = started()
    assert job.stop() == [Stop()]
    assert job.stop() == []
    job.receive(Finished(A))
    job.receive(Finished(B))
    assert job.state == "done"
    assert job.stopped


def test_splits_are_told_how_far_they_may_go_by_the_slowest_that_is_still_read() -> None:
    dealings = {"s": Dealing((A,), grows=False), "t": Dealing((B, C), grows=False)}
    job = Coordinator((A, B, C), dealings, {"t": Drift(10)})
    job.start({"s": SPLITS, "t": []})
    assert job.receive(WatermarkReport(B, 100)) == [Hold("t", 110)]
    assert job.receive(WatermarkReport(C, 50)) == [Hold("t", 60)]
    assert job.receive(WatermarkReport(A, 1)) == []
    assert job.receive(Finished(C)) == [Hold("t", 110)]
    assert job.receive(Finished(A)) == []
    assert job.receive(Finished(B)) == []
    assert job.state == "done"
