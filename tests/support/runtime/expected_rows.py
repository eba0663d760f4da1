"""Pipelines of one step, or of several in a row, compared with the meaning of their plans.

Rows come from the source `rows`, or from `a` and `b`; the step `step` emits to `out`.
They are run as they are, or through whatever happens.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypeAlias

import polars as pl
from hypothesis import Phase, given, seed, settings
from hypothesis import strategies as st

from headrace.connectors.memory import InMemoryData, MemoryEvent
from headrace.core.api.kernel_executor import KernelExecutor
from headrace.core.api.snapshots import Manifest
from headrace.core.coordination.checkpoint_coordinator import CheckpointSchedule
from headrace.core.coordination.messages import CheckpointFailed
from headrace.core.job.job import JobOutcome
from headrace.core.plan import nodes
from headrace.core.testing.reference.interpreter import interpret
from headrace.core.testing.reference.rows import Rows
from headrace.core.testing.reference.timeline import AT_ONCE, Timeline
from headrace.core.types.elements import DELETE
from tests.support.reference import random_pipelines, random_tables
from tests.support.runtime.committed_output import Values, ended, shown
from tests.support.runtime.crashing_jobs import Fate, FlakyMemory, Life, live
from tests.support.runtime.memory_pipelines import bounds_of, cut, job_of, run_simulated

Splits: TypeAlias = list[list[dict[str, Any]]]
DATA = {"rows": "in", "a": "left", "b": "right"}
"""By source: what its rows are called in memory."""
LIVES = 8
EVERY_S = (0.3, 1.0, 3.0)
"""The intervals of checkpoints."""


def of_one_input(data: st.DataObject) -> tuple[str, Splits]:
    """A pipeline of one input, and its rows."""
    splits = data.draw(
        st.one_of(random_pipelines.SPLITS, random_pipelines.ROWS.map(lambda rows: [rows]))
    )
    text = data.draw(random_pipelines.pipelines(one_split=len(splits) == 1))
    text, (splits,) = perhaps_in_order(data, text, splits)
    return text, splits


def of_two_inputs(
    data: st.DataObject,
    pipelines: st.SearchStrategy[str],
    splits: st.SearchStrategy[Splits] = random_pipelines.SPLITS,
) -> tuple[str, dict[str, Splits]]:
    """One of the pipelines of the sources `a` and `b`, and the rows of both, split by split."""
    text = data.draw(pipelines)
    sides = [data.draw(splits) for _ in range(2)]
    for name, side in zip("ab", sides, strict=True):
        for rows in side:
            random_tables.add_changes(data, text, rows, name)
    text, in_order = perhaps_in_order(data, text, *sides)
    return text, dict(zip("ab", in_order, strict=True))


def perhaps_in_order(
    data: st.DataObject, text: str, *sides: Splits
) -> tuple[str, tuple[Splits, ...]]:
    """The rows of each split, perhaps in order, so that time advances while more of them come."""
    if not data.draw(st.booleans()):
        return text, sides
    text = text.replace(f"delay: {random_pipelines.SPREAD_S}s", "delay: 0s")
    in_order = ([sorted(rows, key=lambda row: row["at"]) for rows in side] for side in sides)
    return text, tuple(in_order)


def in_parallel(data: st.DataObject, text: str) -> str:
    """The pipeline with some parallelism."""
    return f"settings: {{parallelism: {data.draw(st.sampled_from([1, 2, 3]))}}}\n{text}"


def run(data: st.DataObject, text: str, came: Mapping[str, Splits]) -> None:
    """Run it over the rows in pieces, tasks in any order, and compare."""
    full = without_empty(came)
    number, size = data.draw(st.integers(0, 99)), data.draw(st.sampled_from([1, 4, 50]))
    memory = InMemoryData({DATA[name]: pieces(splits, size) for name, splits in full.items()})
    with TemporaryDirectory() as folder:
        job = job_of(
            Path(folder), in_parallel(data, text), memory, KernelExecutor(), bounds_of(number)
        )
        outcome = run_simulated(job, number)
    assert outcome.failure is None, outcome.failure
    compare(job.plan, memory, full)


def survive(
    data: st.DataObject,
    text: str,
    came: Mapping[str, Splits],
    lives: int = LIVES,
    every_s: Sequence[float] = EVERY_S,
    *,
    slow_share: float = 0.0,
    every_firing: bool = False,
) -> None:
    """Run it to the end through whatever happens in fewer lives than that, and compare."""
    full = without_empty(came)
    chance = random.Random(data.draw(st.integers(0, 9999)))
    memory = FlakyMemory({DATA[name]: paced(splits, chance) for name, splits in full.items()})
    parallel, count = in_parallel(data, text), chance.randrange(lives)
    plan, _ = survived(parallel, memory, chance, count, every_s, slow_share=slow_share)
    compare(plan, memory, full)
    if every_firing:
        compare_firings(plan, memory, full)


def survived(
    text: str,
    memory: FlakyMemory,
    chance: random.Random,
    lives: int,
    every_s: Sequence[float] = EVERY_S,
    *,
    slow_share: float = 0.0,
    on_committed: Callable[[Manifest], None] = lambda manifest: None,
) -> tuple[nodes.Plan, JobOutcome]:
    """The plan, and the outcome of the last life: the job has come to its end."""
    with TemporaryDirectory() as folder:
        rhythm = CheckpointSchedule(interval_s=chance.choice(every_s), tolerable_failures=1000)
        life = Life(
            Path(folder), text, memory, rhythm, slow_share=slow_share, on_committed=on_committed
        )
        if chance.random() < 0.3:
            life.spill(chance.choice([1, 1 << 20]))
        outcome = live(life, [Fate.drawn(chance) for _ in range(lives)], chance)
    assert outcome.failure is None, outcome.failure
    assert life.finished and life.job is not None
    failures = [event.reason for event in life.news if isinstance(event, CheckpointFailed)]
    assert not [reason for reason in failures if "no such file" in reason], failures
    return life.job.plan, outcome


def compare(
    plan: nodes.Plan,
    memory: InMemoryData,
    came: Mapping[str, Splits],
    timeline: Timeline = AT_ONCE,
) -> None:
    """Hold what came out to what the plan means of the rows that came."""
    _compare_sink(plan, "out", memory, interpret(plan, came, timeline=timeline)["out"])


def compare_sinks(plan: nodes.Plan, memory: InMemoryData, came: Mapping[str, Splits]) -> None:
    """Hold what came out of each sink to what the plan means of the rows that came."""
    wanted = interpret(plan, came)
    for part in plan:
        if isinstance(part, nodes.Sink):
            _compare_sink(plan, part.name, memory, wanted[part.name])


def _compare_sink(plan: nodes.Plan, name: str, memory: InMemoryData, wanted: Rows) -> None:
    sink = plan.part(name)
    assert isinstance(sink, nodes.Sink)
    stream = plan.streams[sink.input]
    names = stream.schema.names
    found = ended(memory, stream.kind, names, name)
    expected = Counter(shown(row.values[name] for name in names) for row in wanted)
    assert found == expected, f"{name}: not {found - expected} but {expected - found}"


def compare_firings(
    plan: nodes.Plan,
    memory: InMemoryData,
    came: Mapping[str, Splits],
    timeline: Timeline = AT_ONCE,
) -> None:
    """Hold what came out for each key and window, in its order, to what the plan means."""
    wanted = interpret(plan, came, every_firing=True, timeline=timeline)["out"]
    stream, steps = plan.streams["step"], (part for part in plan if isinstance(part, nodes.Step))
    operations = (each for step in steps for each in step.operations)
    (keyed,) = (each for each in operations if isinstance(each, nodes.WindowedOperation))
    names = stream.schema.names
    by = [each.name for each in keyed.key]
    by += [name for name in ("window_start", "window_end") if name in names]
    frames = [
        frame.filter(~frame[DELETE]) if DELETE in frame.columns else frame
        for frame in memory.outputs.get("out", [])
    ]
    found = (row for frame in frames for row in frame.select(names).iter_rows(named=True))
    assert _grouped(found, by) == _grouped((row.values for row in wanted), by)


def _grouped(
    rows: Iterable[Mapping[str, Any]], by: Sequence[str]
) -> dict[Values, list[dict[str, Any]]]:
    groups: dict[Values, list[dict[str, Any]]] = {}
    for row in rows:
        values = dict(zip(row, shown(row.values()), strict=True))
        groups.setdefault(tuple(values[name] for name in by), []).append(values)
    return groups


def without_empty(came: Mapping[str, Splits]) -> dict[str, Splits]:
    """The rows that came, without empty splits."""
    return {name: [rows for rows in splits if rows] for name, splits in came.items()}


def pieces(splits: Splits, size: int) -> dict[str, list[MemoryEvent]]:
    """The rows of each split in pieces of a size."""
    return {str(at): [*cut(random_pipelines.frame(rows), size)] for at, rows in enumerate(splits)}


def paced(
    splits: Splits,
    chance: random.Random,
    frame: Callable[[list[dict[str, Any]]], pl.DataFrame] = random_pipelines.frame,
) -> dict[str, list[MemoryEvent]]:
    """The rows of each split in pieces, with pauses."""
    found: dict[str, list[MemoryEvent]] = {}
    for at, rows in enumerate(splits):
        found[str(at)] = []
        for piece in cut(frame(rows), chance.choice([1, 4, 50])):
            found[str(at)] += [piece, chance.choice([0.0, 0.4, 2.0])]
    return found


def more(drawn: Callable[[st.DataObject], None], arguments: Sequence[str]) -> None:
    """As many examples as the first argument says, a hundred a seed, from that of the second on."""
    examples, begin = int(arguments[0]), int(arguments[1]) if len(arguments) > 1 else 0
    for at in range(begin, begin + examples // 100):
        print(f"seed {at}", flush=True)
        some = settings(max_examples=100, deadline=None, phases=[Phase.generate, Phase.shrink])
        seed(at)(some(given(st.data())(drawn)))()
