"""A pipeline with a test in its file, run by `headrace test`."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent, indent

from tests.support.cli.command_line import Headrace, Ran

HEAD = """\
name: shop
sources:
  orders:
    kafka: {brokers: "localhost:9092", topic: orders, group: shop}
    schema: {ts: timestamp, user: string, amount: int}
    event_time: ts
    watermark: {delay: 10s}
    on_error: {to: broken}
steps:
  totals:
    from: orders
    key: user
    window: {tumble: 1m, late_to: late}
    aggregate: {total: sum(amount)}
    select: [user, total]
  running: {from: orders, key: user, aggregate: {n: count(*)}}
sinks:
  a: {from: totals, console: {}}
  b: {from: late, console: {}}
  c: {from: broken, console: {}}
  d: {from: running, console: {}}
"""
STRICT = HEAD.replace("    on_error: {to: broken}\n", "").replace(
    "  c: {from: broken, console: {}}\n", ""
)
"""The pipeline that fails at bad records."""
FAILING = HEAD.replace("sum(amount)}", "sum(amount)}\n    having: raise_error(user) is null")
"""The pipeline that fails at its first total."""
BATCHED = """\
name: t
sources: {orders: {generate: {rows: 1, columns: {amount: id}}}}
steps: {counted: {from: orders, map: {python: code.py:count, returns: {n: int}}}}
sinks: {a: {from: counted, console: {}}}
"""
"""A pipeline whose function in code.py counts the rows of its batches."""
FIVE = 'orders: [{ts: "10:00:05", user: a, amount: 5}]'


def run_test(
    headrace: Headrace, test: str, *arguments: str, head: str = HEAD, name: str = "t"
) -> Ran:
    """Run a test of the pipeline."""
    body = indent(dedent(test), "    ")
    text = f"{head}tests:\n  - name: {name}\n    date: 2026-01-31\n{body}"
    Path("shop.yaml").write_text(text, "utf-8")
    return headrace("test", *arguments)


def check_passes(headrace: Headrace, test: str, head: str = HEAD) -> None:
    """Check that a test passes in each of its variants."""
    ran = run_test(headrace, test, head=head)
    assert (ran.status, ran.out) == (0, ""), ran.out + ran.err


def check_fails(headrace: Headrace, test: str, *lines: str, head: str = HEAD) -> None:
    """Check that a test fails with these lines of output, and perhaps others."""
    ran = run_test(headrace, test, head=head)
    assert ran.status == 1, ran.out + ran.err
    for line in lines:
        assert line in ran.out.splitlines(), ran.out
