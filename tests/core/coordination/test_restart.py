"""Restart strategies, with literal times."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from itertools import count

import pytest

from headrace.core.api.failures import build_failure
from headrace.core.api.splits import Failure
from headrace.core.coordination.restart import RestartPolicy
from headrace.core.pipeline.settings import (
    ExponentialRestart,
    FailureRateRestart,
    FixedRestart,
    NoRestart,
    Restart,
)
from headrace.core.pipeline.text import Text


def exponential(jitter: str = "0") -> ExponentialRestart:
    """Return a strategy of 1 s, 2 s, 4 s, 5 s, ..., and of 1 s again after a minute."""
    return ExponentialRestart.model_validate(
        {
            "first": Text("1s"),
            "max": Text("5s"),
            "factor": Text("2"),
            "jitter": Text(jitter),
            "healthy_after": Text("1m"),
        }
    )


def fixed(attempts: str) -> FixedRestart:
    return FixedRestart.model_validate({"attempts": Text(attempts), "delay": Text("3s")})


FAILURE_RATE = FailureRateRestart.model_validate(
    {"failures": Text("3"), "within": Text("1m"), "delay": Text("2s")}
)


@pytest.mark.parametrize(
    ("strategy", "failures"),
    [
        (NoRestart(), [(0, None)]),
        (fixed("2"), [(0, 3), (5, 3), (9, None)]),
        (fixed("1"), [(0, 3), (100_000, None)]),
        (exponential(), [(0, 1), (1, 2), (3, 4), (7, 5), (12, 5), (17, 5)]),
        # The time of a healthy attempt counts from its start, not from the failure before it.
        (exponential(), [(0, 1), (1, 2), (62, 4), (66, 5)]),
        (exponential(), [(0, 1), (1, 2), (63, 1), (64, 2)]),
        (FAILURE_RATE, [(0, 2), (60, 2), (60, None)]),
        (FAILURE_RATE, [(0, 2), (30, 2), (60, None)]),
        (FAILURE_RATE, [(0, 2), (30, 2), (61, 2), (91, 2), (91.5, None)]),
    ],
)
def test_the_times_before_restarts(
    strategy: Restart, failures: list[tuple[float, float | None]]
) -> None:
    restarts = RestartPolicy(strategy)
    each = (Failure(f"trouble {number}", "s") for number in count())
    assert [restarts.decide_delay_s(next(each), now_s, 0.5) for now_s, _ in failures] == [
        delay_s for _, delay_s in failures
    ]


def test_a_part_of_the_time_is_left_to_chance() -> None:
    for random, delays in ((0.0, [1, 2, 4, 5, 5]), (0.5, [0.95, 1.9, 3.8, 4.75, 4.75])):
        restarts = RestartPolicy(exponential(jitter="0.1"))
        found = [restarts.decide_delay_s(Failure(str(n), "s"), n, random) for n in range(5)]
        assert found == pytest.approx(delays)


def test_without_settings_the_time_grows_to_a_minute_and_no_more() -> None:
    restarts = RestartPolicy(ExponentialRestart())
    found = [restarts.decide_delay_s(Failure(str(n), "s"), 0, 0) for n in range(10_000)]
    assert found[:3] == [1, 1.5, 2.25]
    assert found[-1] == 60


A = Failure("ValueError: x", "map", "orders-0", 17)
B = Failure("KeyError: y", "map", "orders-0", 17)
NOWHERE = Failure("cannot write: no space left on device", "out")
AWAY = Failure("the disk is full", "out", is_transient=True)


@pytest.mark.parametrize(
    ("failures", "goes_on"),
    [
        ([A, A, A], [True, True, False]),
        ([NOWHERE, NOWHERE, NOWHERE], [True, True, False]),
        ([AWAY, AWAY, AWAY, AWAY], [True, True, True, True]),
        ([A, A, B, A, A, A], [True, True, True, True, True, False]),
        ([A, A, Failure(A.message, "map", "orders-0", 18)], [True, True, True]),
        ([A, A, Failure(A.message, "map", "orders-1", 17)], [True, True, True]),
        ([A, A, Failure(A.message, "other", "orders-0", 17)], [True, True, True]),
        ([A, A, Failure("ValueError: z", "map", "orders-0", 17)], [True, True, True]),
        # At a position, neither the raising line nor the hint matters.
        (
            [A, A, Failure(A.message, "map", "orders-0", 17, "a hint", "line 3")],
            [True, True, False],
        ),
    ],
)
@pytest.mark.parametrize("strategy", [exponential(), fixed("100")])
def test_the_same_failure_three_times_running_is_final(
    strategy: Restart, failures: list[Failure], goes_on: list[bool]
) -> None:
    restarts = RestartPolicy(strategy)
    found = [restarts.decide_delay_s(each, now_s, 0) for now_s, each in enumerate(failures)]
    assert [delay_s is not None for delay_s in found] == goes_on


@pytest.mark.parametrize(
    ("lines", "checkpoints", "goes_on"),
    [
        ("m.py:7 m.py:7 m.py:7", [2, 2, 2], [True, True, False]),
        ("m.py:7 m.py:9 m.py:7 m.py:7 m.py:7", [2] * 5, [True, True, True, True, False]),
        ("m.py:7 m.py:7 m.py:7 m.py:7 m.py:7", [2, 2, 3, 3, 3], [True, True, True, True, False]),
    ],
)
def test_code_that_fails_on_another_row_each_time_is_final_where_no_checkpoint_was_taken(
    lines: str, checkpoints: list[int], goes_on: list[bool]
) -> None:
    restarts = RestartPolicy(exponential())
    found = [
        restarts.decide_delay_s(Failure(f"key {at}", "map", raise_site=line), at, 0, checkpoint)
        for at, (line, checkpoint) in enumerate(zip(lines.split(), checkpoints, strict=True))
    ]
    assert [delay_s is not None for delay_s in found] == goes_on


@pytest.mark.parametrize(("failure", "final"), [(A, True), (NOWHERE, False)])
def test_a_healthy_attempt_resets_the_backoff_except_at_a_position(
    failure: Failure, final: bool
) -> None:
    restarts = RestartPolicy(exponential())
    assert restarts.decide_delay_s(failure, 0, 0) == 1
    assert restarts.decide_delay_s(failure, 5, 0) == 2
    assert (restarts.decide_delay_s(failure, 7 + 60, 0) is None) == final


def test_the_first_attempt_may_have_lasted_long() -> None:
    restarts = RestartPolicy(exponential())
    assert [restarts.decide_delay_s(NOWHERE, now_s, 0) for now_s in (9999, 10_000, 10_002)] == [
        1,
        2,
        None,
    ]


@pytest.mark.parametrize("strategy", [exponential(), fixed("100"), FAILURE_RATE])
def test_what_no_restart_changes_is_final_at_once(strategy: Restart) -> None:
    assert RestartPolicy(strategy).decide_delay_s(replace(A, is_final=True), 0, 0) is None


def test_strategies_that_do_not_say_when_a_job_is_well_take_ten_minutes() -> None:
    longest = timedelta(minutes=10).total_seconds()
    for pause_s, final in ((longest - 1, True), (longest, False)):
        restarts = RestartPolicy(fixed("100"))
        restarts.decide_delay_s(NOWHERE, 0, 0)
        restarts.decide_delay_s(NOWHERE, 3, 0)
        assert (restarts.decide_delay_s(NOWHERE, 6 + pause_s, 0) is None) == final


def test_of_errors_of_the_system_the_text_counts_and_not_the_line_alone() -> None:
    def raised(number: int) -> Failure:
        try:
            raise OSError(f"no space left on device: part-{number}")
        except OSError as error:
            return build_failure(error, "out")

    restarts = RestartPolicy(exponential())
    assert all(
        restarts.decide_delay_s(raised(number), number, 0) is not None for number in range(5)
    )
