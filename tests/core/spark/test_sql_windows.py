"""Functions over windows of rows in queries have Spark's values, as a stream and in batch."""

from __future__ import annotations

import json
from pathlib import Path
from random import Random
from textwrap import indent
from typing import TYPE_CHECKING

from tests.support.spark.batches import batch, read_columns, stream

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

QUERIES = {
    "rows": "select id, row_number() over w as n, v - lag(v, 1, 0) over w as change,"
    " avg(v) over (partition by k order by at rows between 2 preceding and 1 following) as mean,"
    " last_value(v) over (order by at range interval 3 seconds preceding) as latest"
    " from orders where v <> 3 window w as (partition by k order by at)",
    "qualified": "select id, count(v) over (partition by k order by at) as n,"
    " v + lead(id) over (order by at) as m from orders"
    " qualify n > 1 and m > dense_rank() over (partition by k, v order by at)",
    "groups": "select k, count(*) as n, sum(count(*)) over (partition by k order by window.end) as"
    " s from orders group by k, window(at, '10 seconds') having count(*) > 1"
    " qualify s > 2 or lag(n) over (partition by k order by window.end) is null",
}
COLUMNS = {
    "rows": ("id", "n", "change", "mean", "latest"),
    "qualified": ("id", "n", "m"),
    "groups": ("k", "n", "s"),
}


def test_functions_over_windows_have_the_values_of_spark(
    tmp_path: Path, quick: SparkSession
) -> None:
    chance = Random(3)
    rows = [
        {
            "id": number,
            "k": chance.choice("ab"),
            "v": chance.choice([1, 2, 3, 9, None]),
            "at": f"2026-01-01T00:00:{number * 1.5:09.6f}Z",
        }
        for number in range(30)
    ]
    (tmp_path / "o.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    config = tmp_path / "p.yaml"
    steps = "".join(f"  {n}:\n    sql: |\n{indent(q, ' ' * 6)}\n" for n, q in QUERIES.items())
    sinks = "".join(
        f"  to_{n}: {{from: {n}, files: {{path: out/{n}, mode: overwrite}}}}\n" for n in QUERIES
    )
    config.write_text(
        "name: p\nsources:\n  orders:\n    files: {path: o.jsonl}\n"
        "    schema: {id: bigint, k: string, v: bigint, at: timestamp}\n    event_time: at\n"
        f"steps:\n{steps}sinks:\n{sinks}"
    )
    schema = "id bigint, k string, v bigint, at string"
    frame = quick.createDataFrame([tuple(row.values()) for row in rows], schema)
    frame.withColumn("at", frame.at.cast("timestamp")).createOrReplaceTempView("orders")
    wanted = {n: sorted(map(tuple, quick.sql(query).collect())) for n, query in QUERIES.items()}
    assert all(wanted.values())
    for run in (lambda: stream(config), lambda: batch(quick, config)):
        run()
        folder = tmp_path / "out"
        assert {n: read_columns(folder / n, *COLUMNS[n]) for n in QUERIES} == wanted
