"""The tables of TPC-H, and the logs of changes that lead to their rows.

A log has an insert for each row that tpchgen-cli writes. A share of the rows are updated later: an
update gives a row the values of another one, so its foreign keys change too. Another share are
deleted; an update may come after the deletion, and inserts the row again. The tables of regions and
nations have their first rows again in the end, as the queries ask for some of them by name.
"""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import polars as pl

SEQUENCE, CHANGE = "seq", "_change"
MONEY = "decimal(15,2)"
SMALL = 100
"""Tables with fewer rows end with their first rows."""


@dataclass(frozen=True, slots=True)
class Table:
    """A table: its key, and the types of its columns, none of which is null."""

    key: tuple[str, ...]
    columns: dict[str, str]


TABLES = {
    "region": Table(
        ("r_regionkey",), {"r_regionkey": "bigint", "r_name": "string", "r_comment": "string"}
    ),
    "nation": Table(
        ("n_nationkey",),
        {
            **{"n_nationkey": "bigint", "n_name": "string", "n_regionkey": "bigint"},
            **{"n_comment": "string"},
        },
    ),
    "supplier": Table(
        ("s_suppkey",),
        {
            **{"s_suppkey": "bigint", "s_name": "string", "s_address": "string"},
            **{"s_nationkey": "bigint", "s_phone": "string", "s_acctbal": MONEY},
            **{"s_comment": "string"},
        },
    ),
    "customer": Table(
        ("c_custkey",),
        {
            **{"c_custkey": "bigint", "c_name": "string", "c_address": "string"},
            **{"c_nationkey": "bigint", "c_phone": "string", "c_acctbal": MONEY},
            **{"c_mktsegment": "string", "c_comment": "string"},
        },
    ),
    "part": Table(
        ("p_partkey",),
        {
            **{"p_partkey": "bigint", "p_name": "string", "p_mfgr": "string"},
            **{"p_brand": "string", "p_type": "string", "p_size": "int", "p_container": "string"},
            **{"p_retailprice": MONEY, "p_comment": "string"},
        },
    ),
    "partsupp": Table(
        ("ps_partkey", "ps_suppkey"),
        {
            **{"ps_partkey": "bigint", "ps_suppkey": "bigint", "ps_availqty": "int"},
            **{"ps_supplycost": MONEY, "ps_comment": "string"},
        },
    ),
    "orders": Table(
        ("o_orderkey",),
        {
            **{"o_orderkey": "bigint", "o_custkey": "bigint", "o_orderstatus": "string"},
            **{"o_totalprice": MONEY, "o_orderdate": "date", "o_orderpriority": "string"},
            **{"o_clerk": "string", "o_shippriority": "int", "o_comment": "string"},
        },
    ),
    "lineitem": Table(
        ("l_orderkey", "l_linenumber"),
        {
            **{"l_orderkey": "bigint", "l_partkey": "bigint", "l_suppkey": "bigint"},
            **{"l_linenumber": "int", "l_quantity": MONEY, "l_extendedprice": MONEY},
            **{"l_discount": MONEY, "l_tax": MONEY, "l_returnflag": "string"},
            **{"l_linestatus": "string", "l_shipdate": "date", "l_commitdate": "date"},
            **{"l_receiptdate": "date", "l_shipinstruct": "string", "l_shipmode": "string"},
            **{"l_comment": "string"},
        },
    ),
}


def generate(folder: Path, scale: float) -> dict[str, pl.DataFrame]:
    """Return the rows of all tables as tpchgen-cli writes them."""
    program = Path(sys.executable).parent / "tpchgen-cli"
    if not program.exists():
        raise SystemExit("wanted tpchgen-cli: .venv/bin/pip install tpchgen-cli")
    command = [str(program), "parquet", "-s", str(scale), "--output-dir", str(folder)]
    subprocess.run(command, check=True, capture_output=True)
    return {name: pl.read_parquet(folder / f"{name}.parquet") for name in TABLES}


def make_log(
    name: str, rows: pl.DataFrame, seed: int, updates: float = 0.2, deletes: float = 0.1
) -> pl.DataFrame:
    """Return the changes of a table, in their order; the shares are those of its rows."""
    key = TABLES[name].key
    values = [column for column in rows.columns if column not in key]
    place = pl.int_range(pl.len()) / pl.len()
    inserts = rows.with_columns(pl.lit("insert").alias(CHANGE), place.alias("place"))
    later = (1 - pl.col("place")) * (pl.int_range(pl.len()).shuffle(seed) / pl.len())

    def pick(share: float, change: str, seed: int) -> pl.DataFrame:
        picked = inserts.sample(fraction=share, shuffle=True, seed=seed)
        return picked.with_columns(pl.lit(change).alias(CHANGE), place=pl.col("place") + later)

    updated = pick(updates, "update_after", seed + 1)
    others = rows.sample(updated.height, with_replacement=True, seed=seed + 2)
    updated = updated.with_columns(others[column] for column in values)
    deleted = pick(deletes, "delete", seed + 3)
    parts = [inserts, updated, deleted]
    if rows.height < SMALL:
        changed = pl.concat([updated, deleted]).unique(key, maintain_order=True)
        restored = inserts.join(changed, on=key, how="semi", maintain_order="left")
        parts.append(restored.with_columns(pl.lit("update_after").alias(CHANGE), place=1.0))
    log = pl.concat(parts).sort("place", maintain_order=True)
    return log.drop("place").with_row_index(SEQUENCE).cast({SEQUENCE: pl.Int64})


def find_rows(name: str, log: pl.DataFrame) -> pl.DataFrame:
    """Return the rows of a table after all changes of its log."""
    last = log.group_by(TABLES[name].key, maintain_order=True).last()
    return last.filter(pl.col(CHANGE) != "delete").select(*TABLES[name].columns)


def write_log(log: pl.DataFrame, file: Path) -> None:
    """Write the changes as lines of JSON; Polars would write decimals as texts."""
    import duckdb

    with duckdb.connect(config={"threads": 1}) as database:
        database.register("log", log.to_arrow())
        database.execute(f"copy log to '{file}' (format json)")
