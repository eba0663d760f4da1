"""When the next fetch is sent, by the size of the last response and the CPU time used."""

from __future__ import annotations

from headrace.connectors.kafka.source.fetch_spacing import (
    LONGEST_INTERVAL_S,
    SMALL_RESPONSE_BYTES,
    FetchSpacing,
)


def build_spacing(first_cpu_s: float, second_cpu_s: float) -> FetchSpacing:
    spacing = FetchSpacing()
    spacing.start_fetch(99.0, first_cpu_s)
    spacing.start_fetch(100.0, second_cpu_s)
    return spacing


def test_fetches_of_few_records_are_spaced_by_what_the_last_ones_cost() -> None:
    cheap = build_spacing(5.0, 5.0005).compute_next(100, 5.001)
    dear = build_spacing(5.0, 5.002).compute_next(100, 5.002)
    assert 100 < cheap < dear < 100 + LONGEST_INTERVAL_S


def test_a_busy_process_delays_a_fetch_by_a_bounded_time() -> None:
    assert build_spacing(5.0, 6.0).compute_next(100, 6.5) == 100 + LONGEST_INTERVAL_S


def test_a_large_response_delays_nothing() -> None:
    assert build_spacing(5.0, 6.0).compute_next(SMALL_RESPONSE_BYTES, 6.5) == 100


def test_the_first_fetch_is_not_charged_with_the_start_of_the_process() -> None:
    spacing = FetchSpacing()
    spacing.start_fetch(100.0, 5.0)
    assert spacing.compute_next(100, 5.0) == 100
