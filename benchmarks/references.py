"""The same work as W1 and W2 by others, each a process of its own: DuckDB, and a plain Python loop.

python -m benchmarks.references duckdb|loop w1|w2 INPUT OUTPUT
"""

from __future__ import annotations

import sys

DUCKDB = {
    "w1": "select * from {bids} where contains(url, 'item7')",
    "w2": "select auction, bidder, price * 0.908::double as price_eur, ts from {bids}",
}
COLUMNS = (
    "{auction: 'BIGINT', bidder: 'BIGINT', price: 'BIGINT', channel: 'VARCHAR', url: 'VARCHAR',"
    " ts: 'BIGINT'}"
)


def duckdb(work: str, source: str, target: str) -> None:
    """A vectorised engine, in batch, on one thread."""
    import duckdb

    bids = f"read_json('{source}', format='newline_delimited', columns={COLUMNS})"
    with duckdb.connect() as connection:
        connection.execute("set threads = 1; set preserve_insertion_order = false")
        query = DUCKDB[work].format(bids=bids)
        connection.execute(f"copy ({query}) to '{target}' (format json)")


def loop(work: str, source: str, target: str) -> None:
    """One loop over the lines: what any engine that handles records in Python pays at least."""
    import orjson

    with open(source, "rb", 1 << 20) as lines, open(target, "wb", 1 << 20) as out:
        for line in lines:
            row = orjson.loads(line)
            if work == "w1":
                if "item7" in row["url"]:
                    out.write(orjson.dumps(row, option=orjson.OPT_APPEND_NEWLINE))
                continue
            made = {
                "auction": row["auction"],
                "bidder": row["bidder"],
                "price_eur": row["price"] * 0.908,
                "ts": row["ts"],
            }
            out.write(orjson.dumps(made, option=orjson.OPT_APPEND_NEWLINE))


if __name__ == "__main__":
    {"duckdb": duckdb, "loop": loop}[sys.argv[1]](*sys.argv[2:])
