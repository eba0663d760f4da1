"""Tests that give rows in the place of a step's output."""

from __future__ import annotations

from tests.support.cli.command_line import Headrace
from tests.support.cli.tested_pipelines import HEAD, check_passes, run_test

CHAIN = """\
name: shop
sources:
  orders:
    kafka: {brokers: "localhost:9092", topic: orders, group: shop}
    schema: {ts: timestamp, user: string, amount: int}
    event_time: ts
steps:
  named:
    from: orders
    lookup: {http: {url: "http://localhost:1/{user}"}, on: {user: user}, add: {tier: string}}
  renamed: {from: named, select: {at: ts, tier: tier, amount: amount}}
  split:
    from: renamed
    route: {big: amount > 10}
  totals:
    from: split.big
    key: tier
    window: {tumble: 1m, late_to: late}
    aggregate: {total: sum(amount)}
    select: [tier, total]
  running: {from: renamed, key: tier, aggregate: {n: count(*), total: sum(amount)}}
  sizes: {from: running, key: n, aggregate: {tiers: count(*), total: sum(total)}}
sinks:
  a: {from: totals, console: {}}
  b: {from: late, console: {}}
  c: {from: split.else, console: {}}
  d: {from: sizes, console: {}}
"""


def test_what_only_feeds_a_given_step_does_not_run(headrace: Headrace) -> None:
    check_passes(
        headrace,
        """
        given:
          - renamed:
              - {at: "10:00:05", tier: gold, amount: 11}
              - {at: "10:00:01", tier: tin, amount: 1}
          - checkpoint
          - restart
          - renamed: [{at: "10:00:07", tier: gold, amount: 12}]
          - watermark: {renamed: "10:01"}
          - expect: {totals: [{tier: gold, total: 23}]}
          - renamed: [{at: "10:00:08", tier: gold, amount: 13}]
        expect:
          late: [{at: "10:00:08", tier: gold, amount: 13}]
          split.else: [{at: "10:00:01", tier: tin, amount: 1}]
          running: [{tier: gold, n: 3, total: 36}, {tier: tin, n: 1, total: 1}]
          renamed: {count: 4}
        """,
        CHAIN,
    )


def test_named_outputs_of_a_step_are_given(headrace: Headrace) -> None:
    check_passes(
        headrace,
        """
        tables: {named: []}
        given:
          - split.big: [{at: "10:00:05", tier: gold, amount: 1}]
          - split.else: []
          - orders: [{ts: "10:00:05", user: a, amount: 1}]
        expect:
          totals: [{tier: gold, total: 1}]
          split.else: []
          running: [{tier: ~, n: 1, total: 1}]
        """,
        CHAIN,
    )


def test_late_rows_are_given_in_the_place_of_a_step(headrace: Headrace) -> None:
    given = 'given: [late: [{ts: "10:00:05", user: a, amount: 1}]]\n'
    check_passes(headrace, f"{given}expect: {{late: {{count: 1}}, totals: []}}\n")


def test_changes_are_given_in_the_place_of_a_step(headrace: Headrace) -> None:
    check_passes(
        headrace,
        """
        given:
          - running: [{tier: gold, n: 1, total: 5}, {tier: tin, n: 1, total: 6}]
          - expect: {sizes: [{n: 1, tiers: 2, total: 11}]}
          - running: [{tier: gold, n: 2, total: 7}]
          - restart
        tables: {named: []}
        expect:
          sizes: [{n: 1, tiers: 1, total: 6}, {n: 2, tiers: 1, total: 7}]
        """,
        CHAIN,
    )


def test_deletions_are_given_in_the_place_of_a_step(headrace: Headrace) -> None:
    check_passes(
        headrace,
        """
        given:
          - sizes: [{n: 1, tiers: 2, total: 11}, {n: 2, tiers: 1, total: 1}]
          - sizes: [{n: 1, _delete: true}]
        tables: {named: []}
        expect: {sizes: [{n: 2, tiers: 1, total: 1}]}
        """,
        CHAIN,
    )


def test_the_event_time_of_rows_stands_beside_their_columns(headrace: Headrace) -> None:
    hours = "hours: {from: totals, key: user, window: {tumble: 1h}, aggregate: {n: count(*)}}"
    head = HEAD.replace("sinks:\n", f"  {hours}\nsinks:\n") + "  e: {from: hours, console: {}}\n"
    check_passes(
        headrace,
        """
        given:
          - totals: [{user: a, total: 5, _event_time: "10:59:59"}]
          - totals: [{user: a, total: 5, _event_time: "11:00:00"}]
        expect:
          hours: {rows: [{user: a, n: 1}, {user: a, n: 1}], match: subset}
        """,
        head,
    )


def check_mistake(headrace: Headrace, test: str, *texts: str) -> None:
    """Check that a test of the chain has one mistake, with these texts."""
    ran = run_test(headrace, test, head=CHAIN)
    assert ran.status == 2
    for text in texts:
        assert text in ran.out
    assert len([line for line in ran.out.splitlines() if line.startswith("shop.yaml:")]) == 1


ROW = '{at: "10:00:05", tier: gold, amount: 1}'


def test_mistakes_in_given_steps(headrace: Headrace) -> None:
    given = f"given:\n  - renamed: [{ROW}]\n"
    idle = 'does not run: the test gives the rows of "renamed"'
    orders = f"{given}  - orders: []\n"
    check_mistake(headrace, orders, f'shop.yaml:33:9: test "t": "orders" {idle}', "remove this")
    lookup = 'the step "named" looks up a table, and the test has no rows of it'
    check_mistake(headrace, f"{given}expect: {{named: []}}\n", lookup)
    check_mistake(headrace, f"{given}tables: {{named: []}}\n", f'"named" {idle}')
    check_mistake(headrace, f"{given}  - bad: {{renamed: x}}\n", '"renamed" is a step')
    check_mistake(headrace, given.replace("amount: 1", "amonut: 1"), 'no column "amonut"')
    check_mistake(headrace, given.replace("at:", "_event_time:"), 'no column "_event_time"')
    totals = "given: [totals: [{tier: gold, total: 1}]]\ntables: {named: []}\n"
    message = 'the row has no value of "_event_time", which cannot be null'
    check_mistake(headrace, totals, "shop.yaml:31:22", message)
