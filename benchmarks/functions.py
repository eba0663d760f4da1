"""CPU time of each function a row, in microseconds, worst first: `python -m benchmarks.functions`.

Each function of the table is called with columns and literals of the types that it takes, as random
expressions are drawn; the figure of a function is that of its slowest call. Names as arguments
measure only those functions.
"""

from __future__ import annotations

import sys
from random import Random
from time import process_time

import polars as pl

from headrace.core.expressions import ExpressionErrors, TypedExpression, to_expr, type_expression
from headrace.core.expressions.function import SqlFunction
from headrace.core.expressions.typed import find_columns
from headrace.core.types.data_types import Type, to_polars
from tests.support.spark.expression_generator import ROWS, Drawing
from tests.support.spark.random_rows import COLUMNS, SCHEMA

COUNT = 1_000_000
DISTINCT = 10_007
CALLS = 3
TRIES = 60
LIMIT_US = 2.0


def make_rows(count: int) -> pl.DataFrame:
    """Return rows of ordinary values: each column repeats 10,007 different ones."""
    random = Random(1)
    frame = pl.DataFrame([_make_column(name, type, random) for name, type in COLUMNS.items()])
    return pl.concat([frame] * (count // DISTINCT + 1)).head(count).rechunk()


def _make_column(name: str, type: Type, random: Random) -> pl.Series:
    values = [_make_value(str(type), random) for _ in range(DISTINCT)]
    dtype = to_polars(type)
    if isinstance(dtype, pl.Date | pl.Datetime | pl.Time):
        physical = pl.Int32 if isinstance(dtype, pl.Date) else pl.Int64
        return pl.Series(name, values, dtype=physical).cast(dtype)
    if isinstance(dtype, pl.Decimal):
        return pl.Series(name, values, dtype=pl.Float64).cast(dtype)
    return pl.Series(name, values, dtype=dtype)


def _make_value(type: str, random: Random) -> object:
    number = random.randrange(10**6)
    match type:
        case "tinyint" | "smallint":
            return number % 100
        case "int" | "bigint":
            return number
        case "boolean":
            return number % 3 == 0
        case "string":
            texts = (f"Customer {number}", f"{number}.5", f"2026-01-{number % 28 + 1:02}T10:00:00")
            return texts[number % 3]
        case "binary":
            return f"bytes {number}".encode()
        case "date":
            return number % 30_000
        case "timestamp" | "timestamp_ntz":
            return number * 10**9 + number
        case "array<int>":
            return [number, number % 7, 3]
        case "array<string>":
            return [f"a{number}", "b", "c"]
        case "struct<n:int,s:string>":
            return {"n": number, "s": f"s{number}"}
    if type.startswith("map<"):
        keys, value = ([number, 7], "a") if type.startswith("map<int") else (["a", "b"], number)
        return dict.fromkeys(keys, value)
    return number * 60_000 if type.startswith("time(") else round(number / 100, 2)


def draw_calls(row: SqlFunction, random: Random) -> dict[str, TypedExpression]:
    """Return calls of a function that read a column."""
    found: dict[str, TypedExpression] = {}
    drawing = Drawing(random)
    for _ in range(TRIES):
        text = drawing.call(row)
        try:
            typed = type_expression(text, SCHEMA)
        except ExpressionErrors:
            continue
        if find_columns(typed):
            found[text] = typed
        if len(found) == CALLS:
            break
    return found


def measure(typed: TypedExpression, rows: pl.DataFrame) -> float:
    """Return the CPU time a row, all threads together."""
    frame = rows.select(sorted(find_columns(typed)))
    expr = to_expr(typed).alias("result")
    frame.head(1000).select(expr)
    start = process_time()
    frame.select(expr)
    return (process_time() - start) / rows.height * 1e6


def main() -> None:
    """Print the functions, worst first; on stderr, what fails."""
    wanted = sys.argv[1:]
    rows, found = make_rows(COUNT), []
    for row in ROWS:
        if wanted and row.name not in wanted:
            continue
        took = []
        for text, typed in draw_calls(row, Random(row.name)).items():
            try:
                took.append((measure(typed, rows), text))
            except Exception as error:  # a call that fails a row, such as raise_error
                print(f"{row.name}: {text}: {type(error).__name__}: {error}", file=sys.stderr)
        if took:
            found.append((*max(took), row.name))
    for cost, text, name in sorted(found, reverse=True):
        mark = " *" if cost > LIMIT_US else ""
        print(f"{cost:8.3f} us  {name}: {text}{mark}")
    slow = sum(cost > LIMIT_US for cost, *_ in found)
    print(f"functions {len(found)}, above {LIMIT_US} us: {slow}")


if __name__ == "__main__":
    main()
