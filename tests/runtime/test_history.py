"""The history of checkpoints, with literal times."""

from __future__ import annotations

from headrace.core.history import History, Remembered
from headrace.core.messages import CheckpointFailed, CheckpointTaken
from headrace.core.snapshots import Blob

OLD, NEW = Blob("0" * 32, 100), Blob("1" * 32, 7)


def test_a_checkpoint_is_remembered_with_what_it_wrote_and_what_it_is_made_of() -> None:
    history = History()
    history.written(3, {"states": [OLD.document(), {"again": OLD.document()}, [NEW.document()]]})
    history.told(CheckpointTaken(3, 0.5, 7), 2_000_000)
    assert history.last == (Remembered(3, 1_500_000, 0.5, bytes_new=7, bytes_all=107),)
    assert history.newest == history.last[0]
    assert (history.completed, history.failed, history.seconds) == (1, 0, 0.5)


def test_one_that_failed_is_remembered_with_the_reason_and_is_not_the_newest() -> None:
    history = History()
    history.told(CheckpointTaken(1, 1.0, 5), 10_000_000)
    history.told(CheckpointFailed(2, "the disk is full", 2.0), 20_000_000)
    assert history.last[0] == Remembered(2, 18_000_000, 2.0, why="the disk is full")
    assert history.last[0].failed
    assert history.newest is not None
    assert history.newest.number == 1
    assert (history.completed, history.failed) == (1, 1)


def test_only_so_many_are_remembered_and_all_are_counted() -> None:
    history = History(most=2)
    for number in range(1, 6):
        history.written(number, {"blob": NEW.document()})
        history.told(CheckpointTaken(number, 1.0, 10), number * 1_000_000)
    assert [each.number for each in history.last] == [5, 4]
    assert (history.completed, history.seconds, history.bytes_new) == (5, 5.0, 50)
