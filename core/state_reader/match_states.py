"""The runs of patterns, as they are shown: a row for each run of a key.

Tests: tests/core/state_reader/test_step_states.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from headrace.core.operators.matches.match_state import HISTORIES, MATCHED_ROWS, RUNS
from headrace.core.patterns.automaton import build_automaton
from headrace.core.patterns.pattern import Pattern
from headrace.core.types.data_types import TIMESTAMP, to_polars
from headrace.core.types.elements import EVENT_TIME

if TYPE_CHECKING:
    import polars as pl

RUN_COLUMNS = ("match_start", "reached", "rows", "ways")
"""The columns of a run: its start, the last variable with rows and the number of rows of its
preferred way, and the number of ways in which it may go on."""


def read_runs(pattern: Pattern, table: pl.DataFrame, key: Sequence[str]) -> pl.DataFrame:
    """Return the runs of a pattern in a table, which has the columns of the key."""
    import polars as pl

    automaton = build_automaton(pattern)
    owners, found = list[int](), list[tuple[object, str, int, int]]()
    lists = (table[name].to_list() for name in (MATCHED_ROWS, HISTORIES, RUNS))
    for at, (rows, histories, runs) in enumerate(zip(*lists, strict=True)):
        for run in runs:
            last = run["threads"][0]["history"]
            position = histories[last]["position"]
            reached = automaton.names[automaton.variables[position]]
            start = rows[run["start"]][EVENT_TIME]
            count = _count_rows(histories, last)
            owners.append(at)
            found.append((start, reached, count, len(run["threads"])))
    types = (to_polars(TIMESTAMP), pl.String(), pl.Int64(), pl.Int64())
    schema = dict(zip(_name_columns(key), types, strict=True))
    shown = pl.DataFrame(found, schema=schema, orient="row")
    return table.select(*key)[owners].hstack(shown)


def _name_columns(key: Sequence[str]) -> list[str]:
    """Return the names of the columns of a run, which are no columns of the key."""
    names = list[str]()
    for name in RUN_COLUMNS:
        while name in key:
            name += "_"
        names.append(name)
    return names


def _count_rows(histories: Sequence[dict[str, Any]], last: int | None) -> int:
    count = 0
    while last is not None:
        count, last = count + 1, histories[last]["before"]
    return count
