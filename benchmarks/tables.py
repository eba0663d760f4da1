"""Tables that change: joins by a foreign key and aggregates by other columns than the key.

`join`: 1 M orders joined with 200 k changes of 100 k customers, and counted by city, from files of
JSON lines. The figure is the CPU over that of DuckDB, which joins the final tables on one thread.
`rekeyed`: changes of 100 k keys, aggregated by one column and the results by another; thousands of
changes a second of CPU. `update`: a customer with 10 k of 1 M orders moves to another city; the
median time until all the changed orders are at the sink. The times of `join` and `rekeyed` are the
least of the rounds, without that of a start, and of one core: on several, Polars distributes the
work of each batch over threads, which takes more CPU in all.
`top`: of 100 k rows in groups of 10, 1,000 and 100,000, batches of rows change; the CPU of a batch.
`group`: in a group of 1 M different values, a row changes; the median time until the result is at
the sink, for several aggregates.
`python -m benchmarks.tables [join|rekeyed|update|top|group] [ROUNDS]`
"""

from __future__ import annotations

import os
import random
import shutil
import sys
import tempfile
from pathlib import Path
from statistics import median
from time import process_time

import polars as pl

from benchmarks.arriving import Arriving
from benchmarks.arriving import run as run_in_process
from benchmarks.timing import compile_all
from benchmarks.works import cpu_s, run

ORDERS, CUSTOMERS, CITIES = 1_000_000, 100_000, 1000
JOIN = """
name: join
settings: {parallelism: 1}
sources:
  customer_rows: {files: {path: customers.jsonl}, schema: {id: bigint, city: bigint}}
  orders: {files: {path: orders.jsonl}, schema: {id: bigint, customer: bigint, amount: bigint}}
steps:
  customers: {from: customer_rows, dedup: {key: id, keep: last}}
  placed:
    join: {left: orders, right: customers, on: orders.customer = customers.id}
    select: {amount: amount, city: city}
  cities: {from: placed, key: city, aggregate: {orders: count(*), total: sum(amount)}}
sinks:
  out: {from: cities, files: {path: out, mode: overwrite}}
"""
DUCKDB = """
import duckdb, sys
root = sys.argv[1]
with duckdb.connect() as c:
    c.execute("set threads = 1")
    read = "read_json('{}/{}.jsonl', format='newline_delimited', columns={{{}}})"
    orders = read.format(root, "orders", "id: 'BIGINT', customer: 'BIGINT', amount: 'BIGINT'")
    rows = read.format(root, "customers", "id: 'BIGINT', city: 'BIGINT'")
    c.execute(f"create table customers as select *, row_number() over () n from {rows}")
    last = "select id, arg_max(city, n) city from customers group by id"
    query = f"select city, count(*) orders, sum(amount) total from {orders} o"
    query += f" join ({last}) l on o.customer = l.id group by city"
    c.execute(f"copy ({query}) to '{root}/duckdb.jsonl' (format json)")
"""
CHANGES = 2_000_000
REKEYED = """
name: rekeyed
settings: {{parallelism: 1}}
sources:
  rows:
    generate:
      rows: {rows}
      columns: {{user: "(id * 7919) % 100000", shop: "(id * 104729) % 5000", amount: id % 100}}
steps:
  users: {{from: rows, dedup: {{key: user, keep: last}}}}
  shops: {{from: users, key: shop, aggregate: {{n: count(*), total: sum(amount)}}}}
  sizes: {{from: shops, key: n, aggregate: {{shops: count(*), total: sum(total)}}}}
sinks:
  out: {{from: sizes, files: {{path: out, mode: overwrite}}}}
"""
UPDATES = 40
UPDATE = """
name: update
settings: {parallelism: 1}
sources:
  rows:
    memory: {data: rows}
    schema: {arrival: int, order: bigint, customer: bigint, city: string}
steps:
  changes: {from: rows, where: order is null, select: [customer, city, arrival]}
  customers: {from: changes, dedup: {key: customer, keep: last}}
  orders: {from: rows, where: order is not null, select: {order: order, customer: customer}}
  last_orders: {from: orders, dedup: {key: order, keep: last}}
  placed:
    join: {left: last_orders, right: customers, on: last_orders.customer = customers.customer}
    select: {order: order, city: city, arrival: arrival}
sinks:
  out: {from: placed, memory: {data: out}}
"""
TOP_ROWS, TOP_UPDATES = 100_000, 20
TOP = """
name: top
settings: {parallelism: 1}
sources:
  rows:
    memory: {data: rows}
    schema: {arrival: int, id: bigint, city: bigint, amount: bigint}
steps:
  orders: {from: rows, dedup: {key: id, keep: last}}
  best: {from: orders, key: city, top: {n: 3, by: amount desc}}
sinks:
  out: {from: best, memory: {data: out}}
"""
GROUP = """
name: group
settings: {{parallelism: 1}}
sources:
  rows:
    memory: {{data: rows}}
    schema: {{arrival: int, id: bigint, city: string, amount: bigint}}
steps:
  orders: {{from: rows, dedup: {{key: id, keep: last}}}}
  cities: {{from: orders, key: city, aggregate: {{arrival: max(arrival), result: "{aggregate}"}}}}
sinks:
  out: {{from: cities, memory: {{data: out}}}}
"""
GROUP_AGGREGATES = (
    *("min(amount)", "count(distinct amount)", "percentile(amount, 0.9)"),
    "sum(cast(amount as double))",
)


def main(work: str = "join", rounds: str = "3") -> None:
    """Print the figure."""
    compile_all()
    if work != "update":
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    with tempfile.TemporaryDirectory() as folder:
        works = {"join": _join, "rekeyed": _rekey, "update": _update, "top": _top, "group": _group}
        works[work](Path(folder), int(rounds))


def _join(root: Path, rounds: int) -> None:
    (root / "p.yaml").write_text(JOIN)
    _write_tables(root, 1, 1)
    start = _time_join(root, rounds)
    _write_tables(root, ORDERS, 2 * CUSTOMERS)
    took = _time_join(root, rounds)
    wanted = pl.read_ndjson(root / "duckdb.jsonl").sort("city")
    found = pl.concat(pl.read_ndjson(part) for part in (root / "out").iterdir())
    last = found.group_by("city").last().select(wanted.columns).sort("city")
    assert last.rows() == wanted.rows(), "other rows than DuckDB's"
    ours, theirs = (own - alone for own, alone in zip(took, start, strict=True))
    print(f"join {ours / theirs:.1f} times the CPU of DuckDB: {ours:.2f} s, {theirs:.2f} s")


def _write_tables(root: Path, orders: int, changes: int) -> None:
    random.seed(11)
    with (root / "customers.jsonl").open("w") as file:
        file.writelines(
            f'{{"id":{n % CUSTOMERS},"city":{random.randrange(CITIES)}}}\n' for n in range(changes)
        )
    with (root / "orders.jsonl").open("w") as file:
        file.writelines(
            f'{{"id":{n},"customer":{random.randrange(CUSTOMERS)},"amount":{n % 1000}}}\n'
            for n in range(orders)
        )


def _time_join(root: Path, rounds: int) -> tuple[float, float]:
    """Return our CPU seconds and those of DuckDB, the least of the rounds."""
    took = [
        (
            cpu_s([sys.executable, *_command(root)]),
            cpu_s([sys.executable, "-c", DUCKDB, str(root)]),
        )
        for _ in range(rounds)
    ]
    ours, theirs = zip(*took, strict=True)
    return min(ours), min(theirs)


def _rekey(root: Path, rounds: int) -> None:
    took = []
    for rows in (1, CHANGES):
        (root / "p.yaml").write_text(REKEYED.format(rows=rows))
        took.append(min(cpu_s([sys.executable, *_command(root)]) for _ in range(rounds)))
    print(f"rekeyed {CHANGES / (took[1] - took[0]) / 1000:.0f} thousand changes per CPU s")


def _update(root: Path, rounds: int) -> None:
    number = pl.int_range(ORDERS, dtype=pl.Int64)
    orders = pl.select(
        pl.repeat(0, ORDERS, dtype=pl.Int32).alias("arrival"),
        number.alias("order"),
        (number // 10_000).alias("customer"),
        pl.lit(None, dtype=pl.String).alias("city"),
    )
    customers = pl.select(
        pl.repeat(0, 100, dtype=pl.Int32).alias("arrival"),
        pl.lit(None, dtype=pl.Int64).alias("order"),
        pl.int_range(100, dtype=pl.Int64).alias("customer"),
        pl.lit("first").alias("city"),
    )
    updates = [
        pl.DataFrame(
            {"arrival": [n], "order": [None], "customer": [n % 100], "city": [f"city {n}"]},
            schema=orders.schema,
        )
        for n in range(1, UPDATES + 1)
    ]
    frames = [pl.concat([customers, orders]), *updates]
    arriving = Arriving(frames, 1.0, alone=True)
    outcome = run_in_process(root, UPDATE, arriving.connector())
    assert outcome.failure is None, outcome.failure
    late = arriving.latencies().filter(pl.col("arrival") > UPDATES // 4)
    rows = late.group_by("arrival").agg(pl.col("ms").max(), pl.len())
    assert rows["len"].min() == 10_000, rows
    last = rows["ms"].cast(pl.Float64).to_list()
    print(f"update {median(last):.0f} ms for 10,000 changed orders, {max(last):.0f} ms at most")


def _top(root: Path, rounds: int) -> None:
    def orders(arrival: int, ids: pl.Series, groups: int) -> pl.DataFrame:
        return ids.to_frame("id").select(
            pl.lit(arrival, pl.Int32).alias("arrival"),
            "id",
            (pl.col("id") % groups).alias("city"),
            ((pl.col("id") * 7919 + arrival * 104_729) % 1_000_003).alias("amount"),
        )

    every = pl.int_range(TOP_ROWS, dtype=pl.Int64, eager=True)
    for rows in (10, 1000, TOP_ROWS):
        first = orders(0, every, TOP_ROWS // rows)
        alone = min(_time_frames(root, [first]) for _ in range(rounds))
        for changed in (1, 1000):
            updates = [
                orders(n, every.sample(changed, seed=n), TOP_ROWS // rows)
                for n in range(1, TOP_UPDATES + 1)
            ]
            cpu = min(_time_frames(root, [first, *updates]) for _ in range(rounds))
            ms = (cpu - alone) / TOP_UPDATES * 1000
            print(f"top {rows} rows in a group: {ms:.1f} ms of CPU for {changed} changed rows")


def _time_frames(root: Path, frames: list[pl.DataFrame]) -> float:
    """Return the CPU seconds in which these frames pass through the steps, one by one."""
    arriving = Arriving(frames, 0.2, alone=True)
    began = process_time()
    outcome = run_in_process(root, TOP, arriving.connector())
    assert outcome.failure is None, outcome.failure
    return process_time() - began


def _group(root: Path, rounds: int) -> None:
    def orders(arrival: int, ids: pl.Expr, amount: pl.Expr) -> pl.DataFrame:
        return pl.select(ids.alias("id"), amount.alias("amount")).select(
            pl.lit(arrival, pl.Int32).alias("arrival"), "id", pl.lit("Wien").alias("city"), "amount"
        )

    number = pl.int_range(ORDERS, dtype=pl.Int64)
    first = orders(0, number, number * 7919 % 1_000_003)
    updates = [
        orders(n, pl.lit(n, pl.Int64), pl.lit(n * 104_729 % 1_000_003, pl.Int64))
        for n in range(1, UPDATES + 1)
    ]
    for aggregate in GROUP_AGGREGATES:
        arriving = Arriving([first, *updates], 1.0, alone=True)
        text = GROUP.format(aggregate=aggregate)
        outcome = run_in_process(root, text, arriving.connector())
        assert outcome.failure is None, outcome.failure
        took = arriving.latencies().filter(pl.col("arrival") > UPDATES // 4)["ms"]
        late = took.cast(pl.Float64).to_list()
        print(f"group {aggregate}: {median(late):.0f} ms for a change, {max(late):.0f} ms at most")


def _command(root: Path) -> list[str]:
    shutil.rmtree(root / "out", ignore_errors=True)
    return run(root)


if __name__ == "__main__":
    main(*sys.argv[1:])
