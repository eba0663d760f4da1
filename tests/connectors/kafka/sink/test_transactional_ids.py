"""The ids of a subtask, one by one; test_protocol goes through all that can become of them."""

from __future__ import annotations

import pytest

from headrace.connectors.kafka.sink.transactional_ids import SlotPool, TransactionalIds, parse_ids


def test_an_id_is_free_once_its_commit_is_recorded() -> None:
    pool = SlotPool.of_size(2).open_slot(0)
    assert pool.slots == ("open", "free")
    assert pool.free_committed() == pool
    committed = pool.open_slot(1).commit_slot(0)
    assert committed.free_slot is None
    assert committed.commit_slot(0) == committed
    assert committed.free_committed().slots == ("free", "open")


@pytest.mark.parametrize("step", ["open_slot", "commit_slot"])
def test_no_step_is_taken_from_where_it_does_not_lead(step: str) -> None:
    pool = SlotPool.of_size(1).open_slot(0)
    if step == "commit_slot":
        pool = SlotPool.of_size(1)
    with pytest.raises(AssertionError):
        getattr(pool, step)(0)


def test_a_record_names_every_id_and_reads_back() -> None:
    record = TransactionalIds("job", "sink-1", 2, 1).with_one_more_slot()
    assert list(record.iterate_ids()) == [
        f"headrace-job-sink-1-0-{n}-{m}" for n in (0, 1) for m in (0, 1)
    ]
    assert parse_ids(record.to_document()) == record


def test_no_attempt_has_an_id_of_one_before() -> None:
    first = TransactionalIds("job", "sink", 2, 3)
    second = first.with_next_generation(parse_ids(first.to_document()))
    third = TransactionalIds("job", "sink", 3, 3).with_next_generation(
        parse_ids(second.to_document())
    )
    every = [*first.iterate_ids(), *second.iterate_ids(), *third.iterate_ids()]
    assert len(set(every)) == len(every) == 21
    assert parse_ids(third.to_document()) == third
