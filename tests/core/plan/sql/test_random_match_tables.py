"""Random `match_recognize` finds the rows that SQL means, as a matcher of rows finds them.

Thousands more: `python -m tests.core.plan.sql.test_random_match_tables 1000 [SEED]`, of five
queries each; it prints the seed that fails.
"""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path
from tempfile import TemporaryDirectory

from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.connectors.memory import InMemoryData
from tests.support.reference import random_match_tables, random_pipelines
from tests.support.runtime import expected_rows
from tests.support.runtime.committed_output import shown
from tests.support.runtime.memory_pipelines import cut, simulated

QUERIES = 5
"""The queries of one pipeline."""
ROWS = st.lists(random_pipelines.ROW, min_size=10, max_size=40)


@settings(max_examples=15)
@given(st.data())
def test_matches_are_those_that_the_query_means(data: st.DataObject) -> None:
    compare(data)


def compare(data: st.DataObject) -> None:
    """Draw queries and rows; compare what each query gives."""
    tables = [data.draw(random_match_tables.match_tables()) for _ in range(QUERIES)]
    rows = data.draw(ROWS)
    number, size = data.draw(st.integers(0, 99)), data.draw(st.sampled_from([1, 4, 50]))
    steps = "".join(
        f"  q{at}:\n    sql: |\n      {each.write()}\n" for at, each in enumerate(tables)
    )
    sinks = "".join(
        f"  out{at}: {{from: q{at}, memory: {{data: out{at}}}}}\n" for at in range(QUERIES)
    )
    text = (
        f"sources:\n  rows:\n    memory: {{data: in}}\n    schema: {random_pipelines.SCHEMA}\n"
        f"    event_time: at\n    watermark: {{delay: {random_pipelines.SPREAD_S}s}}\n"
        f"steps:\n{steps}sinks:\n{sinks}"
    )
    memory = InMemoryData({"in": {"0": [*cut(random_pipelines.frame(rows), size)]}})
    with TemporaryDirectory() as folder:
        outcome = simulated(Path(folder), text, memory, number)
    assert outcome.failure is None, outcome.failure
    for at, table in enumerate(tables):
        frames = memory.outputs.get(f"out{at}", [])
        found = Counter(shown(row) for frame in frames for row in frame.select(table.names).rows())
        wanted = Counter(map(shown, table.find_rows(rows)))
        assert found == wanted, f"{table.write()}\nnot {found - wanted} but {wanted - found}"


if __name__ == "__main__":
    expected_rows.more(compare, sys.argv[1:])
