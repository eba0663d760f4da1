"""Random pipelines through crashes, failures and stops: the rows are those that their plans mean.

Thousands more: `python -m tests.runtime.test_surviving 5000`; a seed that fails prints itself.
"""

from __future__ import annotations

import random
import sys
from collections import Counter
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from hypothesis import Phase, given, seed, settings
from hypothesis import strategies as st

from headrace.connectors.memory import Happening
from headrace.core.checkpoints import Rhythm
from headrace.state.rocks.backend import RocksBackend
from tests.reference import pipelines
from tests.reference.interpreter import interpret
from tests.runtime.outputs import ended, shown
from tests.runtime.running import cut
from tests.runtime.surviving import Fate, FlakyMemory, Life, live

LIVES = 8


@settings(max_examples=120, deadline=None)
@given(st.data())
def test_whatever_happens_a_pipeline_gives_the_rows_that_its_plan_means(
    data: st.DataObject,
) -> None:
    survive(data)


def survive(data: st.DataObject) -> None:
    """Draw a pipeline, rows, and what happens to it."""
    parallelism = data.draw(st.sampled_from([1, 2, 3]))
    splits = data.draw(st.one_of(pipelines.SPLITS, pipelines.ROWS.map(lambda rows: [rows])))
    text = data.draw(pipelines.pipelines(one_split=len(splits) == 1))
    if data.draw(st.booleans()):  # rows in order, so that windows end while more rows come
        text = text.replace(f"delay: {pipelines.SPREAD_S}s", "delay: 0s")
        splits = [sorted(rows, key=lambda row: row["at"]) for rows in splits]
    chance = random.Random(data.draw(st.integers(0, 9999)))
    compare(f"settings: {{parallelism: {parallelism}}}\n{text}", splits, chance)


def compare(text: str, splits: list[list[dict[str, Any]]], chance: random.Random) -> None:
    """Run to the end through whatever happens, and compare."""
    full = [rows for rows in splits if rows]
    memory = FlakyMemory({"in": {str(at): paced(rows, chance) for at, rows in enumerate(full)}})
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
    plan = life.job.plan
    wanted = interpret(plan, {"rows": full})["out"]
    stream = plan.streams["step"]
    names = stream.schema.names
    assert ended(memory, stream.kind, names) == Counter(
        shown(row.values[name] for name in names) for row in wanted
    )


def paced(rows: list[dict[str, Any]], chance: random.Random) -> list[Happening]:
    """The rows in pieces, with pauses."""
    happenings: list[Happening] = []
    for frame in cut(pipelines.frame(rows), chance.choice([1, 4, 50])):
        happenings += [frame, chance.choice([0.0, 0.4, 2.0])]
    return happenings


def more(examples: int, from_seed: int) -> None:
    """As many examples as that, a hundred a seed."""
    for at in range(from_seed, from_seed + examples // 100):
        print(f"seed {at}", flush=True)
        drawn = settings(max_examples=100, deadline=None, phases=[Phase.generate, Phase.shrink])
        seed(at)(drawn(given(st.data())(survive)))()


if __name__ == "__main__":
    more(int(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 0)
