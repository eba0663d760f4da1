"""Operations that may start or not, without a job."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.cli.control.http_messages import RequestError
from headrace.cli.control.operations import (
    MAX_FINISHED,
    MAX_WAITING,
    Operation,
    OperationError,
    Operations,
)

NOW = "2026-01-31T08:00:00Z"
RUNNING = "running"
NO = OperationError("refused", "no")


def saving(operations: Operations, to: str | None = None, status: str = RUNNING) -> Operation:
    return operations.request_savepoint(status, NOW, to)


def stopping(
    operations: Operations,
    *,
    saves: bool = False,
    to: str | None = None,
    drain: bool = False,
    status: str = RUNNING,
) -> Operation:
    return operations.request_stop(status, NOW, saves=saves, to=to, drain=drain)


def code(caught: pytest.ExceptionInfo[RequestError]) -> str:
    assert caught.value.status == 409
    return caught.value.code


def test_a_savepoint_begins_and_ends() -> None:
    operations = Operations()
    one = saving(operations)
    assert (one.state, operations.start_next(RUNNING), one.state) == ("waiting", one, "running")
    assert operations.start_next(RUNNING) is None
    operations.set_progress(one, "half", done=1.0)
    assert (one.progress_text, one.progress_numbers) == ("half", {"done": 1.0})
    operations.finish(one, path="p")
    assert (one.state, one.result, one.progress_text) == ("done", {"path": "p"}, "")


def test_savepoints_wait_for_each_other_and_share_one_that_waits() -> None:
    operations = Operations()
    first, _ = saving(operations), operations.start_next(RUNNING)
    second, other = saving(operations), saving(operations, "/elsewhere")
    assert second is not first
    assert saving(operations) is second
    assert operations.start_next(RUNNING) is None
    operations.fail(first, NO)
    assert operations.start_next(RUNNING) is second
    operations.finish(second)
    assert operations.start_next(RUNNING) is other


def test_no_two_savepoints_go_to_one_place() -> None:
    operations = Operations()
    saving(operations, "/there")
    operations.start_next(RUNNING)
    with pytest.raises(RequestError) as caught:
        saving(operations, "/there")
    assert code(caught) == "taken"
    with pytest.raises(RequestError) as caught:
        stopping(operations, saves=True, to="/there")
    assert code(caught) == "taken"


def test_the_number_of_waiting_operations_is_limited() -> None:
    operations = Operations()
    for number in range(MAX_WAITING):
        saving(operations, f"/{number}")
    with pytest.raises(RequestError) as caught:
        saving(operations, "/one/more")
    assert code(caught) == "busy"


def test_a_rescale_waits_for_a_savepoint_and_a_savepoint_for_a_rescale() -> None:
    operations = Operations()
    first, _ = saving(operations), operations.start_next(RUNNING)
    rescale = operations.request_rescale(RUNNING, NOW, {"totals": 3})
    last = saving(operations)
    assert operations.start_next(RUNNING) is None
    operations.finish(first)
    assert operations.start_next(RUNNING) is rescale
    assert operations.start_next(RUNNING) is None
    operations.finish(rescale)
    assert operations.start_next(RUNNING) is last


def test_a_second_rescale_is_refused_until_the_first_is_over() -> None:
    operations = Operations()
    first = operations.request_rescale(RUNNING, NOW, {})
    for _ in range(2):
        with pytest.raises(RequestError) as caught:
            operations.request_rescale(RUNNING, NOW, {})
        assert code(caught) == "rescaling"
        operations.start_next(RUNNING)
    operations.fail(first, NO)
    assert operations.request_rescale(RUNNING, NOW, {}).state == "waiting"


def test_a_stop_starts_at_once_and_nothing_starts_after_it() -> None:
    operations = Operations()
    saving(operations)
    operations.start_next(RUNNING)
    waiting = saving(operations)
    stop = stopping(operations)
    assert stop.state == "running"
    for ask in (saving, lambda some: some.request_rescale(RUNNING, NOW, {})):
        with pytest.raises(RequestError) as caught:
            ask(operations)
        assert code(caught) == "stopping"
    assert operations.start_next(RUNNING) is None
    assert operations.end_job(drained=False) == [waiting]


@pytest.mark.parametrize("status", ["stopping", "draining", "over"])
def test_what_a_signal_has_stopped_takes_no_more_savepoints(status: str) -> None:
    operations = Operations()
    waiting = saving(operations)
    assert operations.start_next(status) is None
    for ask in (saving, lambda some, status: some.request_rescale(status, NOW, {})):
        with pytest.raises(RequestError) as caught:
            ask(operations, status=status)
        assert code(caught) == ("over" if status == "over" else "stopping")
    assert operations.end_job(drained=False) == [waiting]


def test_a_second_stop_joins_the_first_and_may_want_a_savepoint() -> None:
    operations = Operations()
    first = stopping(operations)
    assert stopping(operations) is first
    assert not first.makes_savepoint
    assert stopping(operations, saves=True, to="/there") is first
    assert (first.makes_savepoint, first.location) == (True, "/there")
    assert stopping(operations, saves=True) is first
    assert stopping(operations, saves=True, to="/there") is first
    with pytest.raises(RequestError) as caught:
        stopping(operations, saves=True, to="/elsewhere")
    assert code(caught) == "stopping"
    assert operations.end_job(drained=False) == [first]


def test_it_may_be_too_late_to_drain() -> None:
    operations = Operations()
    with pytest.raises(RequestError) as caught:
        stopping(operations, drain=True, status="stopping")
    assert code(caught) == "too_late"
    stopping(operations)
    with pytest.raises(RequestError) as caught:
        stopping(operations, drain=True)
    assert code(caught) == "too_late"
    draining = Operations()
    first = stopping(draining, drain=True)
    assert stopping(draining, drain=True, status="draining") is first
    assert stopping(draining, status="draining") is first
    assert first.drain


def test_a_drained_checkpoint_is_no_savepoint_for_who_did_not_drain() -> None:
    operations = Operations()
    waiting = saving(operations)
    stop = stopping(operations, saves=True, drain=True)
    assert operations.end_job(drained=True) == [stop]
    assert not waiting.is_over


def test_a_savepoint_whose_checkpoint_was_not_taken_any_more_waits_for_the_last() -> None:
    operations = Operations()
    one = saving(operations)
    operations.start_next(RUNNING)
    stop = stopping(operations, saves=True)
    operations.requeue(one)
    assert operations.start_next("stopping") is None
    assert operations.end_job(drained=False) == [one, stop]


def test_requests_to_a_finished_job_are_refused() -> None:
    operations = Operations()
    operations.end_job(drained=False)
    for ask in (saving, stopping, lambda some: some.request_rescale(RUNNING, NOW, {})):
        with pytest.raises(RequestError) as caught:
            ask(operations)
        assert code(caught) == "over"


def test_a_stop_that_saves_can_be_joined_until_it_is_over() -> None:
    operations = Operations()
    first = stopping(operations, saves=True)
    operations.end_job(drained=False)
    assert stopping(operations, saves=True, status="over") is first
    with pytest.raises(RequestError) as caught:
        saving(operations, status="over")
    assert code(caught) == "stopping"
    operations.finish(first)
    with pytest.raises(RequestError) as caught:
        stopping(operations, status="over")
    assert code(caught) == "over"


def test_when_the_job_is_over_it_is_too_late_for_a_savepoint() -> None:
    operations = Operations()
    stopping(operations)
    operations.end_job(drained=False)
    with pytest.raises(RequestError) as caught:
        stopping(operations, saves=True, status="over")
    assert code(caught) == "too_late"


def test_old_finished_operations_are_removed() -> None:
    operations = Operations()
    ids = []
    for _ in range(MAX_FINISHED + 5):
        one = saving(operations)
        operations.start_next(RUNNING)
        operations.finish(one)
        ids.append(one.id)
    assert list(operations.operations_by_id) == ids[5:]


@given(st.lists(st.integers(0, 8), max_size=60))
def test_one_operation_runs_at_a_time_and_all_end(moves: list[int]) -> None:
    operations = Operations()
    every: list[Operation] = []
    doing: Operation | None = None
    for move in moves:
        try:
            match move:
                case 0 | 1 | 2:
                    every.append(saving(operations, None if move else "/there"))
                case 3:
                    every.append(operations.request_rescale(RUNNING, NOW, {}))
                case 4:
                    every.append(stopping(operations, saves=True))
                case _ if doing is None:
                    doing = operations.start_next(RUNNING)
                    assert doing is None or doing.kind != "stop"
                case _:
                    assert operations.start_next(RUNNING) is None
                    operations.finish(doing)
                    doing = None
        except RequestError as bad:
            assert bad.status == 409
    if doing is not None:
        operations.finish(doing)
    last = operations.end_job(drained=False)
    assert all(each.kind != "rescale" for each in last)
    for each in operations.list_open_operations():
        operations.fail(each, NO)
    assert all(each.is_over for each in every)
