"""The history of checkpoints, with literal times."""

from __future__ import annotations

from headrace.core.api.snapshots import Blob
from headrace.core.checkpoint.history import CheckpointHistory, CheckpointRecord
from headrace.core.coordination.messages import CheckpointCompleted, CheckpointFailed

OLD, NEW = Blob("0" * 32, 100), Blob("1" * 32, 7)


def test_a_checkpoint_is_remembered_with_what_it_wrote_and_what_it_is_made_of() -> None:
    history = CheckpointHistory()
    history.record_size(
        3, {"states": [OLD.to_document(), {"again": OLD.to_document()}, [NEW.to_document()]]}
    )
    history.record_outcome(CheckpointCompleted(3, 0.5, 7), 2_000_000)
    assert history.records == (CheckpointRecord(3, 1_500_000, 0.5, new_bytes=7, total_bytes=107),)
    assert history.newest_completed == history.records[0]
    assert (history.completed_count, history.failed_count, history.total_seconds) == (1, 0, 0.5)


def test_one_that_failed_is_remembered_with_the_reason_and_is_not_the_newest() -> None:
    history = CheckpointHistory()
    history.record_outcome(CheckpointCompleted(1, 1.0, 5), 10_000_000)
    history.record_outcome(CheckpointFailed(2, "the disk is full", 2.0), 20_000_000)
    assert history.records[0] == CheckpointRecord(
        2, 18_000_000, 2.0, failure_reason="the disk is full"
    )
    assert history.records[0].is_failed
    assert history.newest_completed is not None
    assert history.newest_completed.number == 1
    assert (history.completed_count, history.failed_count) == (1, 1)


def test_the_newest_records_are_retained_and_all_are_counted() -> None:
    history = CheckpointHistory(max_records=2)
    for number in range(1, 6):
        history.record_size(number, {"blob": NEW.to_document()})
        history.record_outcome(CheckpointCompleted(number, 1.0, 10), number * 1_000_000)
    assert [each.number for each in history.records] == [5, 4]
    assert (history.completed_count, history.total_seconds, history.total_new_bytes) == (5, 5.0, 50)
