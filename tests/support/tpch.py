"""Small tables of TPC-H, whose values are mostly those that the queries ask for."""

from __future__ import annotations

from datetime import date, timedelta
from decimal import Decimal
from random import Random

import polars as pl

from benchmarks.tpch.tables import TABLES
from headrace.core.types.data_types import to_polars
from headrace.core.types.type_parser import parse_type

NATIONS = ("GERMANY", "FRANCE", "BRAZIL", "CANADA", "SAUDI ARABIA", "ARGENTINA", "INDIA")
REGIONS = ("EUROPE", "AMERICA", "ASIA", "AFRICA")
REGION_OF = (0, 0, 1, 1, 3, 1, 2)
VALUES = {
    "c_mktsegment": ("BUILDING", "MACHINERY"),
    "c_phone": ("13-1", "31-2", "23-3", "99-4", "18-5"),
    "l_discount": ("0.05", "0.06", "0.07", "0.10"),
    "l_linestatus": ("F", "O"),
    "l_returnflag": ("R", "N", "A"),
    "l_shipinstruct": ("DELIVER IN PERSON", "NONE"),
    "l_shipmode": ("AIR", "MAIL", "SHIP"),
    "l_tax": ("0.02", "0.08"),
    "o_comment": ("the special late requests", "slow deposits", "quick foxes"),
    "o_orderpriority": ("1-URGENT", "2-HIGH", "5-LOW"),
    "o_orderstatus": ("F", "O"),
    "p_brand": ("Brand#12", "Brand#23", "Brand#34", "Brand#45"),
    "p_container": ("SM CASE", "MED BOX", "LG BOX"),
    "p_name": ("forest green", "navy lace", "green red"),
    "p_type": ("ECONOMY ANODIZED STEEL", "PROMO BRUSHED BRASS", "LARGE PLATED BRASS"),
    "s_comment": ("the Customer had Complaints", "", "", ""),
}
"""The values of columns of texts and of fractions; other texts are the name of the column."""
LIMITS = {"l_quantity": 50, "p_size": 15, "ps_availqty": 100, "o_shippriority": 1}
SIZES = {"supplier": 12, "customer": 30, "part": 24, "orders": 160}


def make_tables(seed: int) -> dict[str, pl.DataFrame]:
    """Return the rows of all tables."""
    random = Random(seed)
    keys: dict[str, list[tuple[int, ...]]] = {
        "region": [(n,) for n in range(len(REGIONS))],
        "nation": [(n,) for n in range(len(NATIONS))],
        **{name: [(n,) for n in range(size)] for name, size in SIZES.items()},
    }
    pairs = [(p, s) for p in range(SIZES["part"]) for s in random.sample(range(12), 3)]
    keys["partsupp"] = [*pairs]
    keys["lineitem"] = [(o, n) for o in range(160) for n in range(random.randint(1, 12))]
    return {name: _make_rows(name, keys[name], pairs, random) for name in TABLES}


def _make_rows(
    name: str, keys: list[tuple[int, ...]], pairs: list[tuple[int, int]], random: Random
) -> pl.DataFrame:
    table, rows = TABLES[name], []
    for key in keys:
        row: dict[str, object] = {**dict(zip(table.key, key, strict=True))}
        if name == "lineitem":
            row["l_partkey"], row["l_suppkey"] = random.choice(pairs)
        if name == "nation":
            row |= {"n_name": NATIONS[key[0]], "n_regionkey": REGION_OF[key[0]]}
        if name == "region":
            row["r_name"] = REGIONS[key[0]]
        rows.append({c: row.get(c, _draw(c, type, random)) for c, type in table.columns.items()})
    types = {c: to_polars(parse_type(type)[0]) for c, type in table.columns.items()}
    return pl.DataFrame(rows, types)


def _draw(column: str, type: str, random: Random) -> object:
    if column in VALUES:
        value = random.choice(VALUES[column])
        return value if type == "string" else Decimal(value)
    if column == "o_custkey":
        return random.choice([key for key in range(30) if key % 3])
    if column.endswith("key"):
        return random.randrange(len(NATIONS))
    if type == "date":
        return date(1993, 7, 1) + timedelta(random.randrange(1100))
    if type == "string":
        return f"{column} {random.randrange(5)}"
    whole = random.randint(1, LIMITS.get(column, 3000))
    return whole if type == "int" else Decimal(whole)
