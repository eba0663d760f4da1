"""Time to compile one expression from text to Polars: parsed, typed, compiled; in milliseconds.

The mean over expressions that are typical of pipelines. Each is new to the process, so that no
cache can answer.
"""

from __future__ import annotations

import sys
from time import perf_counter

from headrace.core.expressions import to_expr, type_expression
from headrace.core.types.data_types import BIGINT, DOUBLE, STRING, TIMESTAMP, Field, Schema

SCHEMA = Schema(
    (
        Field("auction", BIGINT),
        Field("price", DOUBLE),
        Field("channel", STRING),
        Field("at", TIMESTAMP),
    )
)

TEXTS = (
    "price * 0.908D > {n}",
    "auction % {n} = 0 and channel in ('Google', 'Facebook', 'c{n}')",
    "case when price > {n} then 'dear' when price is null then null else 'cheap' end",
    "coalesce(upper(trim(channel)), 'none{n}')",
    "date_trunc('minute', at) >= timestamp '2026-01-01 00:00:00' or price < {n}",
    "round(price / {n}, 2) between 1 and 1000 and not (channel like 'x%')",
)


def main() -> None:
    """Print the figure; on stderr, the slowest kind of expression."""

    _compile_all(1)  # the first call of anything imports
    rounds = 50
    took = {text: 0.0 for text in TEXTS}
    for n in range(2, rounds + 2):
        for text in TEXTS:
            start = perf_counter()
            to_expr(type_expression(text.format(n=n), SCHEMA))
            took[text] += perf_counter() - start
    mean = sum(took.values()) / rounds / len(TEXTS) * 1000
    slowest = max(took, key=lambda text: took[text])
    print(f"compile_expression {mean:.2f} ms")
    print(f"slowest {took[slowest] / rounds * 1000:.2f} ms: {slowest}", file=sys.stderr)


def _compile_all(n: int) -> None:
    for text in TEXTS:
        to_expr(type_expression(text.format(n=n), SCHEMA))


if __name__ == "__main__":
    main()
