"""CPU time of each function a row, in microseconds, worst first: `python -m benchmarks.functions`.

Each function of the table is called with columns and literals of the types that it takes, as random
expressions are drawn; the figure of a function is that of its slowest call. Random texts are no
JSON, so its functions are also called with a column of objects, of 130 characters. Names as
arguments measure only those functions.
"""

from __future__ import annotations

import json
import sys
from random import Random
from time import process_time

import polars as pl

from headrace.core.expressions import ExpressionErrors, TypedExpression, to_expr, type_expression
from headrace.core.expressions.function import SqlFunction
from headrace.core.expressions.typed import find_columns
from headrace.core.types.data_types import (
    BIGINT,
    BINARY,
    BOOLEAN,
    DATE,
    INT,
    SMALLINT,
    STRING,
    TIMESTAMP,
    TIMESTAMP_NTZ,
    TINYINT,
    Array,
    Field,
    MapType,
    Schema,
    Struct,
    Time,
    Type,
    find_map,
    to_polars,
)
from tests.support.spark.expression_generator import ROWS, Drawing
from tests.support.spark.random_rows import COLUMNS, SCHEMA

COUNT = 1_000_000
DISTINCT = 10_007
DOCUMENT = "document"
OF_DOCUMENTS = {
    "get_json_object": [
        f"get_json_object(document, '{path}')" for path in ("$.name", "$.tags[*]", "$.inner")
    ],
    "json_array_length": ["json_array_length(document)"],
    "json_object_keys": ["json_object_keys(document)"],
    "from_json": [
        "from_json(document, 'id int, price decimal(10,2)')",
        "from_json(document, 'id int, name string, price double, tags array<string>, "
        "inner struct<x int, y string>')",
    ],
}
CALLS = 3
TRIES = 60
LIMIT_US = 2.0


def make_rows(count: int) -> pl.DataFrame:
    """Return rows of ordinary values: each column repeats 10,007 different ones."""
    random = Random(1)
    columns = [_make_column(name, type, random) for name, type in COLUMNS.items()]
    documents = [_make_document(random.randrange(10**6)) for _ in range(DISTINCT)]
    frame = pl.DataFrame([*columns, pl.Series(DOCUMENT, documents)])
    return pl.concat([frame] * (count // DISTINCT + 1)).head(count).rechunk()


def _make_column(name: str, type: Type, random: Random) -> pl.Series:
    values = [_make_value(type, random.randrange(10**6)) for _ in range(DISTINCT)]
    if find_map(type):
        return pl.Series(name, values, dtype=to_polars(type))
    return pl.Series(name, values).cast(to_polars(type))


def _make_document(number: int) -> str:
    return json.dumps(
        {
            **{"id": number, "name": f"Customer {number}", "price": number / 100},
            **{"tags": ["a", "b", str(number)], "ok": True, "inner": {"x": number % 50, "y": "z"}},
        }
    )


def _make_value(type: Type, number: int) -> object:
    """Return an ordinary value; dates and times are counts."""
    match type:
        case Array(element) if element == STRING:
            return [f"a{number}", "b", "c"]
        case Array(element):
            return [_make_value(element, each) for each in (number, number % 7, 3)]
        case Struct():
            return {field.name: _make_value(field.type, number) for field in type.fields}
        case MapType(key):
            keys, value = ([number, 7], "a") if key == INT else (["a", "b"], number)
            return dict.fromkeys(keys, value)
        case Time():
            return number * 60_000
    texts = (f"Customer {number}", f"{number}.5", f"2026-01-{number % 28 + 1:02}T10:00:00")
    values: dict[Type, object] = {
        **dict.fromkeys((TINYINT, SMALLINT), number % 100),
        **dict.fromkeys((INT, BIGINT), number),
        **dict.fromkeys((TIMESTAMP, TIMESTAMP_NTZ), number * 10**9 + number),
        BOOLEAN: number % 3 == 0,
        STRING: texts[number % 3],
        BINARY: f"bytes {number}".encode(),
        DATE: number % 30_000,
    }
    return values.get(type, round(number / 100, 2))


def draw_calls(row: SqlFunction, random: Random) -> dict[str, TypedExpression]:
    """Return calls of a function that read a column."""
    found: dict[str, TypedExpression] = {}
    drawing = Drawing(random)
    schema = Schema((*SCHEMA, Field(DOCUMENT, STRING)))
    found |= {text: type_expression(text, schema) for text in OF_DOCUMENTS.get(row.name, ())}
    most = len(found) + CALLS
    for _ in range(TRIES):
        text = drawing.call(row)
        try:
            typed = type_expression(text, SCHEMA)
        except ExpressionErrors:
            continue
        if find_columns(typed):
            found[text] = typed
        if len(found) == most:
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
