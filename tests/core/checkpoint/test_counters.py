"""The counters of a checkpoint: those of the subtasks, added to those before a restart."""

from __future__ import annotations

from headrace.core.api.user_metrics import MetricValues
from headrace.core.checkpoint.counters import JobCounters, PartCounters, add_snapshots
from headrace.core.coordination.messages import Snapshot


def test_a_gauge_of_subtasks_that_have_ended_is_not_added_up_by_restarts() -> None:
    metrics = {"s": {"counters": {"seen": 1}, "gauges": {"open": 4}}}
    counts = {"parts": {"s": [1, 1, 0]}, "failed": {}, "windows": {}, "metrics": metrics}
    ended = [Snapshot({}, {}, counts)] * 2
    first = add_snapshots(JobCounters(), ended)
    assert first.parts["s"].metrics == MetricValues({"seen": 2}, {"open": 8})
    second = add_snapshots(first, ended)
    wanted = MetricValues({"seen": 4}, {"open": 8})
    assert second == JobCounters({"s": PartCounters(4, 4, metrics=wanted)})
    others = [Snapshot({}, {}, {"parts": {"s": [1, 1, 0]}, "failed": {}, "windows": {}})]
    assert add_snapshots(second, others).parts["s"].metrics == wanted
