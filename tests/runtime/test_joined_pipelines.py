"""Random joins and broadcasts: the runtime, through whatever happens, against rows side by side.

Thousands more: `python -m tests.runtime.test_joined_pipelines 5000`; a seed that fails is shown.
"""

from __future__ import annotations

import random
import sys
from collections import Counter
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from hypothesis import Phase, given, seed, settings
from hypothesis import strategies as st

from headrace.connectors.memory import Memory
from headrace.core.bench import Bench
from headrace.core.channel import Bounds
from headrace.core.checkpoints import Rhythm
from headrace.core.plan import nodes
from headrace.state.rocks.backend import RocksBackend
from tests.reference import joined, pipelines
from tests.reference.interpreter import interpret
from tests.runtime.outputs import ended, shown
from tests.runtime.running import cut, job_of, run_simulated
from tests.runtime.surviving import Fate, FlakyMemory, Life, live
from tests.runtime.test_surviving import paced

LIVES = 6
Splits = list[list[dict[str, Any]]]


@settings(max_examples=100, deadline=None)
@given(st.data())
def test_a_join_gives_the_rows_that_its_plan_means(data: st.DataObject) -> None:
    text, left, right = drawn(data)
    number, size = data.draw(st.integers(0, 99)), data.draw(st.sampled_from([1, 4, 50]))
    memory = Memory({"left": _cut(left, size), "right": _cut(right, size)})
    with TemporaryDirectory() as folder:
        job = job_of(Path(folder), text, memory, Bench(), Bounds(rows=7))
        outcome = run_simulated(job, number)
    assert outcome.failure is None, outcome.failure
    compare(job.plan, memory, left, right)


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_whatever_happens_a_join_gives_the_rows_that_its_plan_means(data: st.DataObject) -> None:
    survive(data)


def drawn(data: st.DataObject) -> tuple[str, Splits, Splits]:
    """A pipeline, and the rows of its two inputs, split by split."""
    text = data.draw(joined.pipelines())
    sides = [data.draw(pipelines.SPLITS) for _ in range(2)]
    if data.draw(st.booleans()):  # rows in order, so that time goes on while more rows come
        text = text.replace(f"delay: {pipelines.SPREAD_S}s", "delay: 0s")
        sides = [[sorted(rows, key=lambda row: row["at"]) for rows in side] for side in sides]
    left, right = ([rows for rows in side if rows] for side in sides)
    parallelism = data.draw(st.sampled_from([1, 2, 3]))
    return f"settings: {{parallelism: {parallelism}}}\n{text}", left, right


def survive(data: st.DataObject) -> None:
    """Draw a join, rows, and what happens to it; run to the end, and compare."""
    text, left, right = drawn(data)
    chance = random.Random(data.draw(st.integers(0, 9999)))
    memory = FlakyMemory({"left": _paced(left, chance), "right": _paced(right, chance)})
    with TemporaryDirectory() as folder:
        rhythm = Rhythm(every_s=chance.choice([0.3, 1.0, 3.0]), tolerable=1000)
        life = Life(Path(folder), text, memory, rhythm)
        if chance.random() < 0.3:
            life.backend = partial(RocksBackend, f"{folder}/state", chance.choice([1, 1 << 20]))
        fates = [Fate.drawn(chance) for _ in range(chance.randrange(LIVES))]
        outcome = live(life, fates, chance)
    assert outcome.failure is None, outcome.failure
    assert life.finished
    assert life.job is not None
    compare(life.job.plan, memory, left, right)


def compare(plan: nodes.Plan, memory: Memory, left: Splits, right: Splits) -> None:
    """Hold what came out to what the plan means."""
    wanted = interpret(plan, {"a": left, "b": right})["out"]
    stream = plan.streams["step"]
    names = stream.schema.names
    assert ended(memory, stream.kind, names) == Counter(
        shown(row.values[name] for name in names) for row in wanted
    )


def _cut(splits: Splits, size: int) -> dict[str, Any]:
    return {str(at): cut(pipelines.frame(rows), size) for at, rows in enumerate(splits)}


def _paced(splits: Sequence[list[dict[str, Any]]], chance: random.Random) -> dict[str, Any]:
    return {str(at): paced(rows, chance) for at, rows in enumerate(splits)}


def more(examples: int, from_seed: int) -> None:
    """As many examples as that, a hundred a seed."""
    for at in range(from_seed, from_seed + examples // 100):
        print(f"seed {at}", flush=True)
        some = settings(max_examples=100, deadline=None, phases=[Phase.generate, Phase.shrink])
        seed(at)(some(given(st.data())(survive)))()


if __name__ == "__main__":
    more(int(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 0)
