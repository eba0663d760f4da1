"""Random pipelines that are killed at any turn of the loop: the rows are those that the plan means."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path
from tempfile import TemporaryDirectory

from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.connectors.memory import Happening, Memory
from headrace.core.checkpoints import Rhythm
from tests.reference import pipelines
from tests.reference.interpreter import interpret
from tests.runtime.outputs import ended, shown
from tests.runtime.running import cut
from tests.runtime.surviving import Crashed, Life

CRASHES = 6


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_killed_again_and_again_a_pipeline_gives_the_rows_that_its_plan_means(
    data: st.DataObject,
) -> None:
    parallelism = data.draw(st.sampled_from([1, 2, 3]))
    splits = data.draw(st.one_of(pipelines.SPLITS, pipelines.ROWS.map(lambda rows: [rows])))
    text = data.draw(pipelines.pipelines(one_split=len(splits) == 1))
    if data.draw(st.booleans()):  # rows in order, so that windows end while more rows come
        text = text.replace(f"delay: {pipelines.SPREAD_S}s", "delay: 0s")
        splits = [sorted(rows, key=lambda row: row["at"]) for row in [0] for rows in splits]
    chance = random.Random(data.draw(st.integers(0, 999)))
    survive(f"settings: {{parallelism: {parallelism}}}\n{text}", splits, chance)


def survive(text: str, splits: list[list[dict[str, object]]], chance: random.Random) -> None:
    """Run to the end, killed on the way, and compare."""
    inputs = {str(at): paced(rows, chance) for at, rows in enumerate(splits) if rows}
    memory = Memory({"in": inputs})
    with TemporaryDirectory() as folder:
        rhythm = Rhythm(every_s=chance.choice([0.3, 1.0, 3.0]))
        life = Life(Path(folder), text, memory, rhythm)
        for _ in range(CRASHES):
            try:
                outcome = life.run(chance.randrange(1000), turns=chance.randrange(400))
                break
            except Crashed:
                life.end(chance)
        else:
            outcome = life.run(chance.randrange(1000))
    assert outcome.failure is None, outcome.failure
    assert life.finished
    assert life.job is not None
    plan = life.job.plan
    wanted = interpret(plan, {"rows": [rows for rows in splits if rows]})["out"]
    stream = plan.streams["step"]
    names = stream.schema.names
    assert ended(memory, stream.kind, names) == Counter(
        shown(row.values[name] for name in names) for row in wanted
    )


def paced(rows: list[dict[str, object]], chance: random.Random) -> list[Happening]:
    """The rows in pieces, with pauses."""
    happenings: list[Happening] = []
    for frame in cut(pipelines.frame(rows), chance.choice([1, 4, 50])):
        happenings += [frame, chance.choice([0.0, 0.4, 2.0])]
    return happenings
