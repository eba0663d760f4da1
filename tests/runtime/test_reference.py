"""Random pipelines over rows out of order: the runtime against the interpreter of rows."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from tempfile import TemporaryDirectory

from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.connectors.memory import Memory
from headrace.core.bench import Bench
from headrace.core.channel import Bounds
from tests.reference import pipelines
from tests.reference.interpreter import interpret
from tests.runtime.outputs import ended, shown
from tests.runtime.running import cut, job_of, run_simulated


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_a_pipeline_gives_the_rows_that_its_plan_means(data: st.DataObject) -> None:
    parallelism = data.draw(st.sampled_from([1, 3]))
    splits = data.draw(st.one_of(pipelines.SPLITS, pipelines.ROWS.map(lambda rows: [rows])))
    text = data.draw(pipelines.pipelines(one_split=len(splits) == 1))
    if data.draw(st.booleans()):  # rows in order, so that windows end while more rows come
        text = text.replace(f"delay: {pipelines.SPREAD_S}s", "delay: 0s")
        splits = [sorted(rows, key=lambda row: row["at"]) for rows in splits]
    seed, size = data.draw(st.integers(0, 99)), data.draw(st.sampled_from([1, 4, 50]))
    inputs = {str(at): cut(pipelines.frame(rows), size) for at, rows in enumerate(splits) if rows}
    memory = Memory({"in": inputs})
    with TemporaryDirectory() as folder:
        text = f"settings: {{parallelism: {parallelism}}}\n{text}"
        job = job_of(Path(folder), text, memory, Bench(), Bounds(rows=7))
        outcome = run_simulated(job, seed)
    assert outcome.failure is None, outcome.failure
    full = [rows for rows in splits if rows]
    wanted = interpret(job.plan, {"rows": full})["out"]
    kind = job.plan.streams["step"].kind
    names = job.plan.streams["step"].schema.names
    found = ended(memory, kind, names)
    assert found == Counter(shown(row.values[name] for name in names) for row in wanted)
