"""The ids of a subtask, one by one; test_protocol goes through all that can become of them."""

from __future__ import annotations

import pytest

from headrace.connectors.kafka.sink.ids import Record, read
from headrace.connectors.kafka.sink.pool import Pool


def test_an_id_is_free_again_at_the_barrier_behind_its_commit_and_not_before() -> None:
    pool = Pool.of(2).opened(0).barrier().prepared(0)
    assert pool.slots == ("prepared", "free")
    assert pool.barrier() == pool
    committed = pool.opened(1).committed(0)
    assert committed.free is None
    assert committed.committed(0) == committed
    assert committed.barrier().slots == ("free", "open")


@pytest.mark.parametrize("step", ["opened", "prepared", "committed"])
def test_no_step_is_taken_from_where_it_does_not_lead(step: str) -> None:
    pool = Pool.of(1).opened(0)
    if step == "prepared":
        pool = Pool.of(1)
    with pytest.raises(AssertionError):
        getattr(pool, step)(0)


def test_a_record_names_every_id_and_reads_back() -> None:
    record = Record("job", "sink-1", 2, 1).grown()
    assert list(record.ids()) == [f"headrace-job-sink-1-0-{n}-{m}" for n in (0, 1) for m in (0, 1)]
    assert read(record.document()) == record


def test_no_attempt_has_an_id_of_one_before() -> None:
    first = Record("job", "sink", 2, 3)
    second = first.behind(read(first.document()))
    third = Record("job", "sink", 3, 3).behind(read(second.document()))
    every = [*first.ids(), *second.ids(), *third.ids()]
    assert len(set(every)) == len(every) == 21
    assert read(third.document()) == third
