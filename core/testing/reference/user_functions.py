"""Users' functions: over all rows of a window, in their order, and over single rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import polars as pl

from headrace.core.api.user_code import get_instance, load_function
from headrace.core.plan import nodes
from headrace.core.plan.nodes.windows import Evict
from headrace.core.testing.reference.rows import TimedRow, Value
from headrace.core.types.data_types import Schema, to_polars


def call_evictor(evict: Evict, rows: Sequence[TimedRow]) -> tuple[TimedRow, ...]:
    """Return the rows that an evictor retains; evictors of tests ignore the window."""
    assert evict.code is not None and evict.input_columns is not None
    function = evict.code.load()
    function = get_instance(evict.code) if isinstance(function, type) else function
    in_order = _in_order(rows)
    numbered = _frame(in_order, evict.input_columns).with_row_index("__row")
    answer = function(numbered)
    kept = numbered.filter(answer) if isinstance(answer, pl.Series) else answer
    return tuple(in_order[at] for at in kept["__row"])


def apply_function(operation: nodes.Apply, rows: Sequence[TimedRow]) -> list[dict[str, Value]]:
    """Return the output rows of a function."""
    answer = operation.code.load()(_frame(_in_order(rows), operation.input_columns))
    if isinstance(answer, pl.DataFrame):
        return answer.to_dicts()
    return answer if isinstance(answer, list) else [answer] if answer else []


def map_rows(
    operation: nodes.Map, rows: Sequence[TimedRow]
) -> tuple[list[TimedRow], list[TimedRow]]:
    """Return the output rows of a function over single rows, and the rows on which it failed."""
    function = load_function(Path(operation.file), operation.function)
    if operation.mode != "row":  # functions of tests see one row after the other
        return _map_batches(function, rows), []
    made, failed = list[TimedRow](), list[TimedRow]()
    for row in rows:
        try:
            answer = function(dict(row.values))
        except Exception:
            failed.append(row)
            continue
        found = answer if isinstance(answer, list) else [answer] if answer else []
        made += [
            replace(
                row, values={n: each[n] for n in operation.returns.names}, order=(*row.order, at)
            )
            for at, each in enumerate(found)
        ]
    return made, failed


def _map_batches(
    function: Callable[[pl.DataFrame], pl.DataFrame], rows: Sequence[TimedRow]
) -> list[TimedRow]:
    frames = (function(pl.DataFrame([row.values])) for row in rows)
    return [
        replace(row, values=values)
        for row, frame in zip(rows, frames, strict=True)
        for values in frame.to_dicts()
    ]


def _in_order(rows: Sequence[TimedRow]) -> list[TimedRow]:
    return sorted(rows, key=lambda row: row.order)


def _frame(rows: Sequence[TimedRow], columns: Schema) -> pl.DataFrame:
    schema = {field.name: to_polars(field.type) for field in columns}
    return pl.DataFrame([[row.values[n] for n in schema] for row in rows], schema, orient="row")
