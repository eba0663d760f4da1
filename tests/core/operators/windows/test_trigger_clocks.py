"""Random pipelines with triggers under one clock: wall-clock and event-time timers, and restores.

The job and the interpreter of rows follow the same course of time. Rows come in groups cut
anywhere, and the job is stopped, killed or rescaled between them. Thousands more:
`python -m tests.core.operators.windows.test_trigger_clocks 5000`; a seed that fails prints itself.
"""

from __future__ import annotations

import random
import sys
from datetime import datetime, timedelta
from typing import get_args

from hypothesis import assume, given, settings
from hypothesis import strategies as st

from tests.core.operators.windows.test_user_functions import APPLY, EVICT
from tests.support.paths import WINDOW_CODE
from tests.support.reference import random_pipelines
from tests.support.runtime import expected_rows
from tests.support.runtime.clocked_jobs import (
    ClockedJob,
    Group,
    Interruption,
    InterruptionKind,
    Split,
)

SCHEMA = random_pipelines.SCHEMA.replace("}", ", w: timestamp}")
SEEN = "date_trunc('millisecond', current_timestamp())"
"""When a result is emitted; a session closes a microsecond after its end."""


def pipeline(*clauses: str) -> str:
    """A pipeline with a step of these clauses, and the time at which it emits."""
    step = "".join(f"    {clause}\n" for clause in clauses if clause)
    return (
        f"settings: {{parallelism: 2}}\n"
        f"sources:\n  rows:\n    memory: {{data: in}}\n    schema: {SCHEMA}\n"
        f"    event_time: at\n    watermark: {{from: w}}\n"
        f"steps:\n  fired:\n    from: rows\n{step}"
        f'  step: {{from: fired, with: {{seen: "{SEEN}"}}}}\n'
        "sinks:\n  out: {from: step, memory: {data: out}}\n"
    )


@st.composite
def windows(draw: st.DrawFn) -> str:
    """Draw a window, mostly with a trigger."""
    shape, by_wall = draw(random_pipelines.TIMES), draw(st.booleans())
    parts = [shape, *(["time: processing"] if by_wall and "global" not in shape else [])]
    at_end = draw(st.sampled_from(["", ", at_end: false"]))
    code = "Alarmed" if len(parts) == 1 else "WallAlarmed"
    kind = draw(st.sampled_from(["wall", "event", "count", "python", "python", "none"]))
    match kind:
        case "wall":
            parts.append("trigger: {every: 2s, time: processing}")
        case "event":
            parts.append("trigger: {every: 3s}")
        case "count":
            parts.append(f"trigger: {{count: {draw(st.integers(1, 4))}{at_end}}}")
        case "python":
            parts.append(f"trigger: {{python: '{WINDOW_CODE}:{code}', of: v{at_end}}}")
    may_be_late = kind in ("count", "python") and not at_end and len(parts) == 2
    if may_be_late and "global" not in shape and draw(st.booleans()):
        parts.append("lateness: 4s")
    if kind != "none":
        parts.append(f"accumulate: {str(draw(st.booleans())).lower()}")
    return f"window: {{{', '.join(parts)}{draw(EVICT)}}}"


@st.composite
def splits(draw: st.DrawFn, number: int) -> Split:
    """Draw the rows of a split; most of them are around its watermark."""
    groups, mark_s = [], 0
    for _ in range(draw(st.integers(1, 6))):
        pause_s = draw(st.integers(1, 32)) / 8 + number / 64
        rows = draw(st.lists(random_pipelines.ROW, min_size=1, max_size=6))
        at = [mark_s + draw(st.integers(-12, 40)) / 4 for _ in rows]
        rows = [{**row, "at": _at(s)} for row, s in zip(rows, at, strict=True)]
        mark_s += draw(st.integers(0, 6))
        groups.append(Group(pause_s, rows, draw(st.sampled_from([_at(mark_s), None]))))
    return Split(groups, draw(st.integers(1, 64)) / 8 + number / 64)


def _at(seconds: float) -> datetime:
    return random_pipelines.BEGIN + timedelta(seconds=seconds)


@st.composite
def interruptions(draw: st.DrawFn) -> list[Interruption]:
    """Draw up to three of them, each some time after the job has resumed."""
    found, resumed_s = [], 0.0
    for _ in range(draw(st.sampled_from([0, 0, 1, 2, 3]))):
        kind = draw(st.sampled_from(get_args(InterruptionKind)))
        at_s = resumed_s + draw(st.integers(0, 64)) / 8 + 1 / 256
        found.append(Interruption(kind, at_s, draw(st.integers(1, 40)) / 8 - 1 / 256))
        resumed_s = found[-1].resumed_s
    return found


def follow(data: st.DataObject) -> None:
    """Run a random pipeline, and compare each firing with what the interpreter has at that time."""
    key = data.draw(st.sampled_from(["", "key: k", "key: [k, s]", "key: x"]))
    apply = f"apply: {{python: '{WINDOW_CODE}:brief', returns: {APPLY['brief']}}}"
    of_all = "aggregate: {n: count(*), all: collect_list(v), head: first(s)}"
    step = data.draw(st.sampled_from([of_all, f"{of_all}\n    having: n > 1", apply]))
    where = data.draw(st.sampled_from(["", "where: v > -3 or v is null"]))
    many = data.draw(st.sampled_from([1, 1, 2]))
    job = ClockedJob(
        pipeline(where, key, data.draw(windows()), step),
        [data.draw(splits(number)) for number in range(many)],
        data.draw(interruptions()),
    )
    assume(job.has_one_order)
    plan, memory = job.run(random.Random(data.draw(st.integers(0, 9999))))
    came = {"rows": [split.list_rows() for split in job.splits]}
    expected_rows.compare_firings(plan, memory, came, job.timeline)
    expected_rows.compare(plan, memory, came, job.timeline)


@settings(max_examples=25, deadline=None)
@given(st.data())
def test_triggers_of_both_clocks_fire_as_row_by_row(data: st.DataObject) -> None:
    follow(data)


if __name__ == "__main__":
    expected_rows.more(follow, sys.argv[1:])
