"""The queries of Nexmark that ship: each gives the rows that DuckDB has, over the same events.

At parallelism 3; those that are killed (`test_killed.py`) come to their end at 1.
"""

from pathlib import Path

import pytest

from tests.support.nexmark import QUERIES, connectors, output, wanted
from tests.support.nexmark_runs import run_query


@pytest.mark.parametrize("query", QUERIES)
def test_a_query_gives_the_rows_that_duckdb_has(tmp_path: Path, query: str) -> None:
    run_query(tmp_path, f"{query}.yaml", connectors(query), seed=3)
    rows = wanted(query)
    assert rows
    assert output(query, tmp_path) == rows
