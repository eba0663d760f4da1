"""The plain Python loop that `benchmarks.match` compares with: a dict with the run of each key.

`python benchmarks/match_loop.py IN OUT` reads and writes JSON lines.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from typing import Any


def find_matches(events: Iterable[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Yield the matches of `a b+ c` within a minute."""
    runs = dict[int, list[int]]()
    for row in events:
        card, kind, at = row["card"], row["kind"], row["ts"]
        run = runs.get(card)
        if run is not None:
            if at - run[0] >= 60_000:
                del runs[card]
            elif kind == "b":
                run[1] += 1
            else:
                del runs[card]
                if kind == "c" and run[1]:
                    made = {"card": card, "match_start": run[0], "match_end": at, "n": run[1]}
                    yield made | {"amount": row["amount"]}
        if kind == "a":
            runs[card] = [at, 0]


def write_matches(source: str, target: str) -> None:
    """Write the matches of a file."""
    import orjson

    with open(source, "rb", 1 << 20) as lines, open(target, "wb", 1 << 20) as out:
        for made in find_matches(map(orjson.loads, lines)):
            out.write(orjson.dumps(made, option=orjson.OPT_APPEND_NEWLINE))


if __name__ == "__main__":
    write_matches(*sys.argv[1:])
