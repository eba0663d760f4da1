"""The rows of a random query over tables as DuckDB computes them from the final tables.

`python -m tests.support.reference.duckdb_tables N [SEED]` compares N queries with the interpreter
of plans, a hundred a seed.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import duckdb
import polars as pl
from hypothesis import strategies as st

from headrace.connectors.memory import InMemoryData
from headrace.core.testing.reference.interpreter import interpret
from headrace.core.types.change_columns import CHANGE
from tests.support.reference import random_pipelines, random_tables
from tests.support.reference.random_table_steps import TableQuery, queries
from tests.support.runtime import expected_rows
from tests.support.runtime.committed_output import Values, shown
from tests.support.runtime.memory_pipelines import plan_of

ROWS = st.lists(st.lists(random_pipelines.ROW, max_size=20), min_size=1, max_size=2)
KEYS = {
    random_tables.SOURCE_TABLES["by sequence"]: (("k",), "v"),
    random_tables.SOURCE_TABLES["by place"]: (("k",), "0"),
    random_tables.SOURCE_TABLES["by two columns"]: (("k", "s"), "v * 2"),
}
"""The key and the sequence of each kind of table."""


def create_sources(
    database: duckdb.DuckDBPyConnection,
    tables: Mapping[str, str],
    inputs: Mapping[str, Sequence[Sequence[dict[str, Any]]]],
) -> None:
    """Create the relations `a` and `b`: all rows, or the newest row of each key."""
    for name, splits in inputs.items():
        types = {**random_pipelines.COLUMNS, CHANGE: pl.String(), "split": pl.Int64()}
        rows = [{**row, "split": number} for number, rows in enumerate(splits) for row in rows]
        frame = pl.DataFrame(rows, types, orient="row").with_row_index("place")
        database.register("arrived", frame.to_arrow())
        query = 'select *, "at" as event_time from arrived'
        if name in tables:
            key, sequence = KEYS[tables[name]]
            known = " and ".join(f"{column} is not null" for column in (*key, sequence))
            order = (
                f"partition by {', '.join(key)} order by {sequence} desc, split desc, place desc"
            )
            query += f" where {known} qualify row_number() over ({order}) = 1"
            deletes = f"coalesce({CHANGE}, '') in ('delete', 'update_before')"
            query = f"select * from ({query}) where not {deletes}"
        database.execute(f"create table {name} as {query}")
        database.unregister("arrived")


def run_query(
    query: TableQuery,
    inputs: Mapping[str, Sequence[Sequence[dict[str, Any]]]],
    columns: Mapping[str, Sequence[str]],
) -> dict[str, Counter[Values]]:
    """Return these columns of each stream that is written."""
    with duckdb.connect(config={"threads": 1}) as database:
        create_sources(database, query.tables, inputs)
        for name, sql in query.views.items():
            database.execute(f"create view {name} as {sql}")
        quoted = {end: ", ".join(f'"{n}"' for n in names) for end, names in columns.items()}
        return {
            end: Counter(map(shown, database.execute(f"select {names} from {end}").fetchall()))
            for end, names in quoted.items()
        }


def hold(data: st.DataObject) -> None:
    """Draw a query and rows; compare DuckDB's rows with those of the interpreter."""
    query = data.draw(queries())
    sides = [data.draw(ROWS) for _ in range(2)]
    for name, splits in zip("ab", sides, strict=True):
        for rows in splits:
            random_tables.add_changes(data, query.text, rows, name)
    inputs = dict(zip("ab", sides, strict=True))
    with TemporaryDirectory() as folder:
        plan = plan_of(Path(folder), query.text, {"memory": InMemoryData().build_connector()})
    columns = {
        end: [n for n in plan.streams[end].schema.names if f'null as "{n}"' not in query.views[end]]
        for end in query.ends
    }
    columns = {end: names for end, names in columns.items() if names}
    wanted, found = interpret(plan, inputs), run_query(query, inputs, columns)
    for end, names in columns.items():
        meant = Counter(shown(row.values[name] for name in names) for row in wanted[end])
        assert found[end] == meant, (
            f"{end}: {dict(found[end] - meant)} but {dict(meant - found[end])}"
        )


if __name__ == "__main__":
    expected_rows.more(hold, sys.argv[1:])
