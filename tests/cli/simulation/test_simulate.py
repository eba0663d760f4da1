"""`headrace simulate` finds user code that is wrong, shrinks it to a test, and passes the rest."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from textwrap import dedent, indent
from xml.etree import ElementTree

import polars as pl
import pytest

from headrace.cli.pipeline_tests.checked_tests import Suite, check_suite
from headrace.cli.simulation.random_case import CaseStep, Fault, find_split_key
from headrace.cli.simulation.shrinker import can_be_compared
from headrace.cli.simulation.simulation import Simulation
from headrace.core.operators.operator import Output
from headrace.core.operators.running_results import RunningAggregateOperator
from headrace.core.pipeline.pipeline_tests.model import ClockAdvance, ControlEvent
from headrace.core.plan import nodes
from headrace.core.testing.bound_tests import FedIdleness, FedRows, FedWatermark
from tests.support.cli.command_line import Headrace, Ran
from tests.support.plans import plan_of

ORDERS = """\
name: shop
sources:
  orders:
    kafka: {brokers: "localhost:9092", topic: orders, group: shop}
    schema: {ts: timestamp, user: string, amount: int}
    event_time: ts
    watermark: {delay: 10s}
"""
WINDOWS = f"""\
{ORDERS}\
steps:
  totals:
    from: orders
    key: user
    window: {{tumble: 1m, late_to: late}}
    aggregate: {{total: sum(amount)}}
  most: {{from: totals, key: user, aggregate: {{most: max(total)}}}}
sinks:
  a: {{from: most, console: {{}}}}
  b: {{from: late, console: {{}}}}
"""


@pytest.fixture(autouse=True)
def no_color(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")


def simulate(headrace: Headrace, text: str, *arguments: str, code: str = "") -> Ran:
    """Simulate a pipeline, with a file of Python beside it."""
    Path("shop.yaml").write_text(text, "utf-8")
    Path("code.py").write_text(dedent(code), "utf-8")
    return headrace("simulate", "shop.yaml", *arguments)


def check_entry_fails(headrace: Headrace, ran: Ran, text: str) -> list[str]:
    """Check that the printed entry fails under `tests:`, and return its lines."""
    assert ran.status == 1, ran.out + ran.err
    head, _, rest = ran.out.partition("as an entry of tests:, where headrace test")
    options, _, entry = rest.partition(" fails like this:\n")
    assert entry, head
    Path("shop.yaml").write_text(f"{text}tests:\n{indent(entry, '  ')}", "utf-8")
    tested = headrace("test", *options.split())
    assert (tested.status, "failed: simulated, seed" in tested.out) == (1, True), tested.out
    return entry.splitlines()


BATCHED = f"""\
{ORDERS}\
steps: {{counted: {{from: orders, map: {{python: code.py:count, returns: {{n: int}}}}}}}}
sinks: {{a: {{from: counted, console: {{}}}}}}
"""


def test_a_function_that_counts_the_rows_of_its_batch_is_found(headrace: Headrace) -> None:
    code = """
    import polars as pl

    def count(rows):
        return rows.select(n=pl.repeat(len(rows), len(rows), dtype=pl.Int32))
    """
    ran = simulate(headrace, BATCHED, code=code)
    assert ran.out.startswith("failed: seed ")
    lines = check_entry_fails(headrace, ran, BATCHED)
    assert lines[-2:] == ["  expect:", "    counted: [{n: 2}, {n: 2}]"]
    assert ran.out.count("ts: ") == 2, "two rows are enough"


def test_state_in_a_global_that_a_restart_loses_is_found(headrace: Headrace) -> None:
    text = f"""\
{ORDERS}\
steps:
  numbered:
    from: orders
    key: user
    process: {{python: code.py:Number, returns: {{user: string, n: bigint}}}}
sinks: {{a: {{from: numbered, console: {{}}}}}}
"""
    code = """
    import headrace

    seen = {}

    class Number(headrace.Process):
        def on_row(self, row, state, out):
            seen[row.user] = seen.get(row.user, 0) + 1
            out(user=row.user, n=seen[row.user])
    """
    lines = check_entry_fails(headrace, simulate(headrace, text, code=code), text)
    assert 1 <= sum(line in ("  - restart", "  - savepoint") for line in lines) <= 2
    assert sum(line.startswith("  - orders:") for line in lines) <= 2


def test_a_function_that_depends_on_the_order_of_keys_is_found(headrace: Headrace) -> None:
    text = f"""\
{ORDERS}\
steps:
  totals:
    from: orders
    key: user
    window: {{tumble: 1m}}
    aggregate: {{total: sum(amount)}}
  compared:
    from: totals
    map: {{python: code.py:compare, returns: {{user: string, is_new: boolean}}}}
sinks: {{a: {{from: compared, console: {{}}}}}}
"""
    code = """
    import polars as pl

    last = []

    def compare(rows):
        before = (last + [None])[0:1] + rows["user"].to_list()[:-1]
        last[:] = rows["user"].to_list()[-1:] or last
        new = [a != b for a, b in zip(before, rows["user"].to_list())]
        return rows.select("user").with_columns(is_new=pl.Series(new, dtype=pl.Boolean))
    """
    ran = simulate(headrace, text, code=code)
    # The keys of a window come in another order from run to run, so the entry may also pass.
    assert (ran.status, "as an entry of tests:" in ran.out) == (1, True), ran.out + ran.err


def test_a_correct_pipeline_passes_and_the_summary_counts_what_happened(
    headrace: Headrace,
) -> None:
    ran = simulate(headrace, WINDOWS, "--seeds", "20", "--junit", "junit.xml")
    assert (ran.status, ran.out) == (0, ""), ran.out
    words = [part.split()[-1] for part in ran.err.split(", ")[:4]]
    assert words == ["rows", "crashes", "restarts", "savepoints"], ran.err
    assert ran.err.startswith("20 seeds: ")
    suite = ElementTree.parse("junit.xml").getroot()[0]
    assert (suite.get("tests"), suite.get("failures")) == ("20", "0")


TOTALS = f"""\
{ORDERS}\
steps: {{totals: {{from: orders, key: user, aggregate: {{n: count(*)}}}}}}
sinks: {{a: {{from: totals, console: {{}}}}}}
"""


def test_a_fault_that_both_runs_share_is_found_by_the_reference_interpreter(
    headrace: Headrace, monkeypatch: pytest.MonkeyPatch
) -> None:
    process = RunningAggregateOperator.process

    def lose_a_row(self: RunningAggregateOperator, frame: pl.DataFrame) -> Iterator[Output]:
        return process(self, frame.filter(pl.col("user") != "a"))

    monkeypatch.setattr(RunningAggregateOperator, "process", lose_a_row)
    ran = simulate(headrace, TOTALS)
    assert "this is a fault of headrace, please report it" in ran.out, ran.out
    assert "totals: 1 row (-) did not come" in ran.out
    lines = check_entry_fails(headrace, ran, TOTALS)
    assert lines[-1] == "    totals: [{user: a, n: 1}]"
    assert len(lines) == 5, "one row is enough"


def test_the_last_line_names_the_streams_that_were_interpreted(headrace: Headrace) -> None:
    ran = simulate(headrace, WINDOWS, "--seeds", "3")
    assert ran.err.splitlines()[-1] == "compared with the reference interpreter: most, late"
    code = """
    def count(rows):
        return rows.select(n="amount")
    """
    ran = simulate(headrace, BATCHED, "--seeds", "3", code=code)
    assert ran.err.splitlines()[-1] == "compared between runs only: counted"


def test_an_invariant_that_does_not_hold_is_found(headrace: Headrace) -> None:
    right = "sum(totals.total) + coalesce(sum(late.amount), 0) = sum(orders.amount)"
    wrong = "sum(totals.total) = sum(orders.amount)"
    text = f"{WINDOWS}invariants:\n  - {right}\n"
    assert (
        simulate(
            headrace,
            text.replace(", late_to: late", ", lateness: 1s, late_to: late"),
            "--seeds",
            "1",
        ).status
        == 0
    )
    ran = simulate(headrace, f"{text}  - {wrong}\n")
    assert ran.status == 1
    assert f"  shop.yaml:20:5: {wrong} is false: sum(totals.total) is " in ran.out, ran.out


@pytest.mark.parametrize(
    ("invariant", "place", "message"),
    [
        ("sum(total.total) > 0", "19:9", 'there is no stream "total"'),
        ("sum(totals.amount) > 0", "19:9", 'unknown column "amount"'),
        ("sum(totals.total)", "19:5", "wanted a condition, got an expression of type bigint"),
        ("first(totals.total) > 0", "19:5", "first depends on the order of rows"),
        ("sum(totals.total + late.amount) > 0", "19:5", "sum is over one stream"),
        ("total > 0", "19:5", '"total" is not inside an aggregate'),
        ("count(*) > 0", "19:5", "count names no column of a stream"),
    ],
)
def test_mistakes_of_invariants_are_reported_with_their_places(
    headrace: Headrace, invariant: str, place: str, message: str
) -> None:
    Path("shop.yaml").write_text(f"{WINDOWS}invariants:\n  - {invariant}\n", "utf-8")
    for command in ("validate", "simulate"):
        ran = headrace(command, "shop.yaml")
        assert ran.status == 2
        assert f"shop.yaml:{place}: invariants: {message}" in ran.out


def test_invariants_are_no_part_of_the_pipeline(headrace: Headrace) -> None:
    Path("plain.yaml").write_text(WINDOWS, "utf-8")
    Path("more.yaml").write_text(f"{WINDOWS}invariants: [count(late) = 0]\n", "utf-8")
    plain, more = (
        headrace("explain", name, "--format", "json") for name in ("plain.yaml", "more.yaml")
    )
    assert (more.status, more.out) == (0, plain.out)


def test_rows_that_fail_the_job_undisturbed_are_a_mistake(headrace: Headrace) -> None:
    text = WINDOWS.replace("sum(amount)}", "sum(amount)}\n    having: raise_error(user) is null")
    ran = simulate(headrace, text)
    assert ran.status == 2
    assert "fails without any disturbance: the job has failed: totals: raise_error: " in ran.err


LOOKUP = """\
name: t
sources: {orders: {generate: {rows: 1, columns: {id: id}}}}
steps:
  named:
    from: orders
    lookup: {http: {url: "http://localhost:1/{id}"}, on: {id: id}, add: {land: string}}
sinks: {a: {from: named, console: {}}}
"""


def test_rows_of_a_lookup_table_are_those_of_a_test(headrace: Headrace) -> None:
    ran = simulate(headrace, LOOKUP)
    assert (ran.status, 'the step "named" looks up a table' in ran.err) == (2, True)
    assert "tables: {named: [{id: ..., land: ...}]}" in ran.err
    test = "  - {name: t, tables: {named: [{id: 1, land: PL}]}, given: [], expect: {named: []}}\n"
    ran = simulate(headrace, f"{LOOKUP}tests:\n{test}", "--seeds", "3")
    assert ran.status == 0, ran.out + ran.err


def test_rows_are_drawn_from_a_file(headrace: Headrace) -> None:
    text = WINDOWS.replace(
        "sum(amount)}", "sum(amount)}\n    having: if(total < 7, raise_error('few'), true)"
    )
    Path("orders.jsonl").write_text('{"user": "a", "amount": 7}\n{"user": "b", "amount": 9}\n')
    assert simulate(headrace, text, "--seeds", "2").status == 2
    ran = simulate(headrace, text, "--seeds", "2", "--sample", "orders=orders.jsonl")
    assert ran.status == 0, ran.out + ran.err


@pytest.mark.parametrize(
    ("sample", "message"),
    [
        (
            "orders",
            '--sample: wanted SOURCE=FILE with a file of .csv, .jsonl, .parquet, got "orders"',
        ),
        ("order=rows.jsonl", '--sample: there is no source "order"'),
        ("orders=no.jsonl", "--sample: there is no file no.jsonl"),
        ("orders=rows.jsonl", 'rows.jsonl:2: there is no column "price"'),
        ("orders=none.csv", "--sample: none.csv has no rows"),
    ],
)
def test_mistakes_of_samples(headrace: Headrace, sample: str, message: str) -> None:
    Path("rows.jsonl").write_text('{"user": "a"}\n{"price": 7}\n')
    Path("none.csv").write_text("user\n")
    ran = simulate(headrace, WINDOWS, "--sample", sample)
    assert (ran.status, message in ran.err) == (2, True), ran.err


def test_the_rows_of_tables_and_their_deletions_are_drawn(headrace: Headrace) -> None:
    text = """\
name: t
sources:
  users:
    kafka: {brokers: "localhost:9092", topic: users, group: t}
    schema: {id: int, tier: string, version: bigint}
    table: {key: [id], sequence: version}
steps:
  tiers: {from: users, key: tier, aggregate: {n: count(*)}}
sinks:
  a: {from: tiers, console: {}}
invariants: [sum(tiers.n) = count(users)]
"""
    ran = simulate(headrace, text, "--seeds", "4")
    assert ran.status == 0, ran.out


def test_an_event_time_that_cannot_be_drawn_is_refused_and_others_are_found(
    headrace: Headrace,
) -> None:
    text = WINDOWS.replace("ts: timestamp", "ms: bigint").replace(
        "event_time: ts", "event_time: timestamp_millis(ms)"
    )
    assert simulate(headrace, text, "--seeds", "2").status == 0
    ran = simulate(headrace, text.replace("(ms)", "(ms * 3 + 1)"))
    assert ran.status == 2
    assert 'no value is known from which "orders" computes its event time' in ran.err


def test_a_seed_is_run_alone_and_gives_the_same_case(headrace: Headrace) -> None:
    first, second = (simulate(headrace, WINDOWS, "--seed", "7").err for _ in range(2))
    assert first.rpartition(", in ")[0] == second.rpartition(", in ")[0]


def test_rows_come_one_by_one_where_changes_may_be_late(headrace: Headrace) -> None:
    text = f"""\
{ORDERS}\
steps:
  last: {{from: orders, dedup: {{key: user, keep: last}}}}
  counts: {{from: last, window: {{tumble: 1m}}, aggregate: {{n: count(*)}}}}
sinks:
  a: {{from: counts, console: {{}}}}
"""
    assert simulate(headrace, text, "--seeds", "4").status == 0
    simulation = Simulation(check_suite(Suite("shop.yaml", with_section=True), ()), 100, {})
    events = [event for seed in range(20) for event in simulation.draw_case(seed).events]
    after_rows = [after for event, after in pairwise(events) if isinstance(event, FedRows)]
    assert after_rows and set(after_rows) == {ControlEvent("checkpoint")}
    assert {sum(map(len, e.splits)) for e in events if isinstance(e, FedRows)} == {1}


def test_rows_of_an_idle_split_come_only_where_steps_provide_for_it() -> None:
    rows = FedRows("orders", (({"id": 1},), ()))
    idle = CaseStep((FedIdleness("orders", (0,)),))
    assert not can_be_compared((idle, CaseStep((rows,))))
    assert can_be_compared((CaseStep((rows,)), idle))
    assert can_be_compared((idle, CaseStep((FedWatermark("orders", 1),)), CaseStep((rows,))))
    assert can_be_compared((idle, CaseStep((rows, rows), Fault("turn", 1))))
    other = FedRows("orders", ((), ({"id": 1},)))
    all_idle = CaseStep((FedIdleness("orders", (0, 1)),))
    assert can_be_compared((all_idle, CaseStep((rows, rows)), CaseStep((other, other))))
    assert not can_be_compared((all_idle, CaseStep((rows, other))))


def test_splits_become_idle_all_at_once_and_by_the_clock(headrace: Headrace) -> None:
    Path("shop.yaml").write_text(WINDOWS.replace("delay: 10s", "delay: 10s, idle: 1m"), "utf-8")
    checked = check_suite(Suite("shop.yaml", with_section=True), ())
    simulation = Simulation(checked, 100, {})
    cases = [simulation.draw_case(seed) for seed in range(60)]
    idle = [each for case in cases for each in case.events if isinstance(each, FedIdleness)]
    assert {each.splits for each in idle} >= {(0,), (0, 1), (0, 1, 2)}
    by_clock = [s for case in cases for s in case.steps if ClockAdvance in map(type, s.events)]
    assert by_clock and all(FedIdleness in map(type, step.events) for step in by_clock)
    assert all(can_be_compared(case.steps) for case in cases)


@pytest.mark.parametrize(
    ("key", "found"),
    [("k", ("k",)), ("{d: v % 2, k: k}", ("k",)), ("{d: v % 2}", None), ("[k, v]", ("k", "v"))],
)
def test_rows_are_divided_among_splits_by_columns_that_are_in_each_key(
    tmp_path: Path, key: str, found: tuple[str, ...] | None
) -> None:
    plan = plan_of(
        tmp_path,
        f"""
        name: t
        sources:
          rows: {{files: {{path: in}}, schema: {{k: bigint, v: bigint}}}}
        steps:
          step: {{from: rows, key: {key}, window: {{count: 3}}, aggregate: {{n: count(*)}}}}
        sinks:
          out: {{from: step, console: {{}}}}
        """,
    )
    source = plan.part("rows")
    assert isinstance(source, nodes.Source)
    assert find_split_key(plan, source) == found
