"""Classes through crashes, failures, stops and rescales: the rows are those that they mean."""

from __future__ import annotations

import random
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.core.checkpoints import Rhythm
from tests.process.test_process_freezing import CLASSES as FILE
from tests.process.test_process_freezing import ODD, RETURNS, step
from tests.reference import pipelines
from tests.runtime import test_joined_pipelines as sides
from tests.runtime.surviving import Fate, FlakyMemory, Life, live
from tests.runtime.test_surviving import compare, paced

CLASSES = {
    "Totals": step("Totals").replace("n: bigint", "n: int"),
    "Two": step("Two"),
    "Suspicious": step("Suspicious", ODD),
}


@pytest.mark.parametrize("name", CLASSES)
@settings(max_examples=12, deadline=None)
@given(st.data())
def test_whatever_happens_a_class_gives_the_rows_that_it_means(
    name: str, data: st.DataObject
) -> None:
    parallelism = data.draw(st.sampled_from([1, 2, 3]))
    splits = data.draw(pipelines.SPLITS)
    delay = pipelines.SPREAD_S
    if data.draw(st.booleans()):
        delay = 0
        splits = [sorted(rows, key=lambda row: row["at"]) for rows in splits]
    chance = random.Random(data.draw(st.integers(0, 9999)))
    text = (
        f"settings: {{parallelism: {parallelism}}}\n"
        f"sources:\n  rows: {{memory: {{data: in}}, schema: {pipelines.SCHEMA}, event_time: at,"
        f" watermark: {{delay: {delay}s}}}}\n"
        f"steps:\n  step: {{from: rows, {CLASSES[name]}}}\n"
        "sinks:\n  out: {from: step, memory: {data: out}}\n"
    )
    compare(text, splits, chance)


@settings(max_examples=15, deadline=None)
@given(st.data())
def test_whatever_happens_a_class_of_two_inputs_gives_the_rows_that_it_means(
    data: st.DataObject,
) -> None:
    parallelism = data.draw(st.sampled_from([1, 2, 3]))
    both = [[rows for rows in data.draw(pipelines.SPLITS) if rows] for _ in range(2)]
    delay = pipelines.SPREAD_S
    if data.draw(st.booleans()):
        delay = 0
        both = [[sorted(rows, key=lambda row: row["at"]) for rows in side] for side in both]
    chance = random.Random(data.draw(st.integers(0, 9999)))
    source = (
        f"{{memory: {{data: %s}}, schema: {pipelines.SCHEMA}, event_time: at,"
        f" watermark: {{delay: {delay}s}}}}"
    )
    text = (
        f"settings: {{parallelism: {parallelism}}}\n"
        f"sources:\n  a: {source % 'left'}\n  b: {source % 'right'}\n"
        "steps:\n  step: {key: k, connect: {left: a, right: b},"
        f" process: {{python: {FILE}:Matched, {RETURNS}}}}}\n"
        "sinks:\n  out: {from: step, memory: {data: out}}\n"
    )
    paced_both = [{str(at): paced(rows, chance) for at, rows in enumerate(side)} for side in both]
    memory = FlakyMemory(dict(zip(("left", "right"), paced_both, strict=True)))
    with TemporaryDirectory() as folder:
        life = Life(Path(folder), text, memory, Rhythm(every_s=1.0, tolerable=1000))
        fates = [Fate.drawn(chance) for _ in range(chance.randrange(6))]
        outcome = live(life, fates, chance)
    assert outcome.failure is None, outcome.failure
    assert life.finished and life.job is not None
    sides.compare(life.job.plan, memory, *both)
