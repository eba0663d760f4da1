"""The work of W1 to W4 by other means, each a process of its own: DuckDB, and a plain Python loop.

DuckDB runs a batch; the windows of the loop close by a watermark, as ours.
python -m benchmarks.references duckdb|loop w1|w2|w3|w4 INPUT OUTPUT
"""

from __future__ import annotations

import sys

WINDOWS = {"w3": ("auction", 10_000), "w4": ("bidder", 60_000)}
DELAY_MS = 2000
WINDOWED = (
    "select {key}, ts - ts % {size} as window_start, ts - ts % {size} + {size} as window_end,"
    " count(*) as n, sum(price)::bigint as total, max(price) as maxp from {{bids}} group by all"
)
DUCKDB = {
    "w1": "select * from {bids} where contains(url, 'item7')",
    "w2": "select auction, bidder, price * 0.908::double as price_eur, ts from {bids}",
    **{work: WINDOWED.format(key=key, size=size) for work, (key, size) in WINDOWS.items()},
}
COLUMNS = (
    "{auction: 'BIGINT', bidder: 'BIGINT', price: 'BIGINT', channel: 'VARCHAR', url: 'VARCHAR',"
    " ts: 'BIGINT'}"
)


def duckdb(work: str, source: str, target: str) -> None:
    """Run the work with a vectorised engine, as a batch, on one thread."""
    import duckdb

    bids = f"read_json('{source}', format='newline_delimited', columns={COLUMNS})"
    with duckdb.connect() as connection:
        connection.execute("set threads = 1; set preserve_insertion_order = false")
        query = DUCKDB[work].format(bids=bids)
        connection.execute(f"copy ({query}) to '{target}' (format json)")


def loop(work: str, source: str, target: str) -> None:
    """Loop over the lines: the least cost of any engine that handles records in Python."""
    import orjson

    if work in WINDOWS:
        windows(*WINDOWS[work], source, target)
        return
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


def windows(key: str, size: int, source: str, target: str) -> None:
    """Loop with a dict per window, which is emitted when the watermark passes its end."""
    import orjson

    open_windows: dict[int, dict[int, list[int]]] = {}
    newest = 0
    with open(source, "rb", 1 << 20) as lines, open(target, "wb", 1 << 20) as out:

        def close(start: int, keys: dict[int, list[int]]) -> None:
            for value, (n, total, most) in keys.items():
                made = {key: value, "window_start": start, "window_end": start + size}
                row = {**made, "n": n, "total": total, "maxp": most}
                out.write(orjson.dumps(row, option=orjson.OPT_APPEND_NEWLINE))

        for line in lines:
            row = orjson.loads(line)
            time, price = row["ts"], row["price"]
            start = time - time % size
            if time > newest:
                newest = time
                for due in [s for s in open_windows if s + size <= newest - DELAY_MS]:
                    close(due, open_windows.pop(due))
            elif start + size <= newest - DELAY_MS:
                continue
            keys = open_windows.setdefault(start, {})
            state = keys.get(row[key])
            if state is None:
                keys[row[key]] = [1, price, price]
            else:
                state[0] += 1
                state[1] += price
                state[2] = max(state[2], price)
        for start in sorted(open_windows):
            close(start, open_windows[start])


if __name__ == "__main__":
    {"duckdb": duckdb, "loop": loop}[sys.argv[1]](*sys.argv[2:])
