"""The 22 queries of TPC-H as pipelines, and their rows as DuckDB computes them."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from decimal import ROUND_HALF_UP, Decimal
from pathlib import Path
from textwrap import indent

import polars as pl

from benchmarks.tpch.tables import CHANGE, SEQUENCE, TABLES

QUERIES = {
    f"q{number}": (Path(__file__).parent / "queries" / f"q{number}.sql").read_text("utf-8")
    for number in range(1, 23)
}
Row = tuple[object, ...]


def list_tables(query: str) -> list[str]:
    """Return the tables that a query reads."""
    return [name for name in TABLES if re.search(rf"\b{name}\b", QUERIES[query])]


def write_pipeline(
    name: str, queries: Iterable[str], source: str = "files: {path: $.jsonl}", sink: str = ""
) -> str:
    """Return a pipeline of queries, each a step and a sink of its name.

    The connectors may name the table or the query, as `$`.
    """
    queries = [*queries]
    sink = sink or "files: {path: out/$, mode: overwrite, changelog: full}"
    lines = [f"name: {name}", "sources:"]
    for table in TABLES:
        if any(table in list_tables(query) for query in queries):
            types = {c: f"{type} not null" for c, type in TABLES[table].columns.items()}
            types |= {SEQUENCE: "bigint", CHANGE: "string"}
            schema = ", ".join(f'{column}: "{type}"' for column, type in types.items())
            key = ", ".join(TABLES[table].key)
            lines += [f"  {table}:", f"    {source.replace('$', table)}"]
            lines += [f"    schema: {{{schema}}}"]
            lines += [f"    table: {{key: [{key}], sequence: {SEQUENCE}}}"]
    lines += ["steps:"]
    for query in queries:
        lines += [f"  {query}:", "    sql: |", indent(QUERIES[query].rstrip(), " " * 6)]
    lines += ["sinks:"]
    lines += [f"  {query}_out: {{from: {query}, {sink.replace('$', query)}}}" for query in queries]
    return "\n".join(lines) + "\n"


def compute_rows(tables: Mapping[str, pl.DataFrame], query: str) -> Counter[Row]:
    """Return the rows that DuckDB has for a query over the rows of tables."""
    import duckdb

    with duckdb.connect(config={"threads": 1}) as database:
        for name in list_tables(query):
            database.register(name, tables[name].to_arrow())
        rows = database.execute(QUERIES[query]).fetchall()
    return Counter(map(round_numbers, rows))


def round_numbers(row: Iterable[object]) -> Row:
    """Return a row whose decimals and floats have six decimals, as Spark gives quotients.

    DuckDB divides decimals as floats, and its rounded results are those of Spark.
    """
    return tuple(
        Decimal(value).quantize(Decimal("0.000001"), ROUND_HALF_UP)
        if isinstance(value, float | Decimal)
        else value
        for value in row
    )
