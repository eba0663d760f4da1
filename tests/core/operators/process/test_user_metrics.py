"""Counters and gauges of classes: counted once for each row, through restarts and rescales."""

from __future__ import annotations

import random
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace import Process, Trial
from headrace.core.api.user_code import UserCodeError
from headrace.core.api.user_metrics import MetricValues
from tests.support.paths import PROCESS_CLASSES
from tests.support.reference import random_pipelines
from tests.support.runtime.crashing_jobs import FlakyMemory
from tests.support.runtime.expected_rows import paced, survived

PIPELINE = f"""
sources:
  rows:
    memory: {{data: in}}
    schema: {random_pipelines.SCHEMA}
    event_time: at
    watermark: {{delay: 0s}}
steps:
  step:
    from: rows
    key: k
    process:
      python: {PROCESS_CLASSES}:Measured
      returns: {{k: int, n: bigint}}
      order: %s
    on_error: skip
sinks:
  out: {{from: step, memory: {{data: out}}}}
"""


@pytest.mark.parametrize("order", ["arrival", "event_time"])
@settings(max_examples=8, deadline=None)
@given(st.integers(0, 9999))
def test_each_row_is_counted_once_whatever_happens(order: str, seed: int) -> None:
    chance = random.Random(seed)
    values = [[chance.randrange(-3, 9) for _ in range(40)] for _ in range(3)]
    splits = [
        [
            {"k": v % 4, "s": "a", "v": v, "x": 0.0, "at": random_pipelines.BEGIN + at}
            for at, v in zip((timedelta(seconds=n) for n in range(40)), split, strict=True)
        ]
        for split in values
    ]
    memory = FlakyMemory({"in": paced(splits, chance)})
    _, outcome = survived(PIPELINE % order, memory, chance, chance.randrange(5))
    good = [v for split in values for v in split if v >= 0]
    counted = outcome.part_counts["step"].metrics.counters
    assert counted == {"rows": len(good), "sum": sum(good)}


class Described(Process):
    def __init__(self) -> None:
        self.seen = self.metrics.counter("seen")
        self.open = self.metrics.gauge("open")

    def on_row(self, row: Any, state: Any, out: Any) -> None:
        self.seen.add(row.v > 0)
        self.open.set(row.v / 2)


def trial(kind: type[Process]) -> Trial:
    return Trial(kind, key="k", rows={"k": "int", "v": "int"}, returns={"k": "int"})


def test_a_trial_shows_the_metrics() -> None:
    tried = trial(Described)
    assert tried.metrics == {"seen": 0}
    for value in (0, 1, 5):
        tried.row(k=1, v=value)
    assert tried.metrics == {"seen": 2, "open": 2.5}


@pytest.mark.parametrize(
    ("use", "message"),
    [
        (
            "counter('a b')",
            "metrics: wanted a name of letters, digits and _, at most 100, got 'a b'",
        ),
        ("counter(3)", "metrics: wanted a name of letters, digits and _, at most 100, got 3"),
        ("counter('a').add(-1)", 'counter "a": wanted 0 or more, got -1'),
        ("counter('a').add(0.5)", "'float' object cannot be interpreted as an integer"),
        ("gauge('a').set(float('nan'))", 'gauge "a": wanted a finite number, got nan'),
        ("gauge('a').set('1')", "gauge \"a\": wanted a finite number, got '1'"),
        ("counter('a') and self.metrics.gauge('a')", 'metrics: "a" is a counter already'),
        (
            "counter('a') and [self.metrics.counter(f'user_{n}') for n in range(200)]",
            "metrics: 100 names are in use, and 'user_99' is another one: "
            "names must not depend on the rows",
        ),
    ],
)
def test_a_mistake_is_an_error_of_its_row(use: str, message: str) -> None:
    class Mistaken(Process):
        def on_row(self, row: Any, state: Any, out: Any) -> None:
            eval(f"self.metrics.{use}", {"self": self})

    with pytest.raises(UserCodeError) as raised:
        trial(Mistaken).row(k=1, v=1)
    assert message in str(raised.value)


def test_a_class_may_have_an_attribute_of_that_name() -> None:
    class Own(Process):
        def __init__(self) -> None:
            self.metrics: list[int] = []  # type: ignore[assignment]

        def on_row(self, row: Any, state: Any, out: Any) -> None:
            self.metrics.append(row.v)
            out(k=len(self.metrics))

    tried = trial(Own)
    tried.row(k=1, v=1)
    assert tried.out == [{"k": 1}]
    assert tried.metrics == {}


def test_values_restored_are_continued() -> None:
    class Continued(Process):
        def __init__(self) -> None:
            self.metrics.counter("seen").add(1)
            self.metrics.gauge("open").set(4)

    process = Continued()
    values = process._get_metrics()._restore(MetricValues({"seen": 5, "old": 1}, {"was": 2.0}))
    process.metrics.counter("seen").add()
    assert values == MetricValues({"seen": 7, "old": 1}, {"was": 2.0, "open": 4})
