"""Tests of pipelines in Python: the calls are the events of `headrace test`."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import pytest

from headrace import PipelineTrial
from tests.support.cli.tested_pipelines import BATCHED, FAILING, HEAD

LOOKUP = """\
name: t
sources: {orders: {files: {path: o.jsonl}, schema: {id: int, customer: int}}}
steps:
  named:
    from: orders
    lookup: {http: {url: "https://a.example/{c}"}, on: {c: customer}, add: {name: string}}
sinks: {out: {from: named, files: {path: out}}}
"""
HERE = Path(__file__).name


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file of a pipeline in the working directory."""
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "shop.yaml"
    path.write_text(HEAD, "utf-8")
    return path


def order(second: int, user: str = "a", amount: int = 5) -> dict[str, object]:
    return {"ts": f"10:00:{second:02}", "user": user, "amount": amount}


def test_events_have_the_meaning_of_a_test_file(shop: Path) -> None:
    with PipelineTrial(shop, date=date(2026, 1, 31)) as trial:
        trial.feed("orders", [order(5)])
        assert trial.rows("totals") == []
        trial.watermark(orders="10:01:30")
        assert trial.rows("totals") == [{"user": "a", "total": 5}]
        assert trial.rows("totals") == []
        trial.checkpoint()
        trial.feed("orders", [order(7)])
        trial.restart()
        trial.savepoint()
        trial.rescale(2)
        trial.feed_bad("orders", ['{"ts": 1', "x"])
        assert trial.rows("running", changelog=True)[-1] == {"user": "a", "n": 2}
        assert trial.rows("running") == [{"user": "a", "n": 2}]
        trial.end()
        late = [{"ts": datetime(2026, 1, 31, 10, 0, 7, tzinfo=UTC), "user": "a", "amount": 5}]
        assert trial.rows("late") == late
        assert trial.metrics() == {"late": 1, "bad": 2, "unfilled": 0}
        trial.expect({"broken": {"count": 2, "where": "source = 'orders'"}}, metrics={"late": 1})


def test_splits_and_idleness_are_those_of_a_test_file(shop: Path) -> None:
    with PipelineTrial(shop, date="2026-01-31", splits={"orders": 2}) as trial:
        trial.feed_splits("orders", [[order(5)], [order(5, "b")]])
        trial.feed_splits("orders", [[{"ts": "10:02:00", "user": "c", "amount": 1}]])
        assert trial.rows("totals") == []
        trial.idle(orders=1)
        assert len(trial.rows("totals")) == 2


def test_time_passes_with_advance(shop: Path) -> None:
    shop.write_text(HEAD.replace("delay: 10s", "delay: 10s, idle: 1m"), "utf-8")
    with PipelineTrial(shop, date="2026-01-31", splits={"orders": 2}) as trial:
        trial.feed_splits("orders", [[order(5)], [order(5, "b")]])
        trial.advance("50s")
        trial.feed_splits("orders", [[{"ts": "10:02:00", "user": "c", "amount": 1}]])
        assert trial.rows("totals") == []
        trial.advance(timedelta(seconds=20))
        assert len(trial.rows("totals")) == 2


def test_rows_take_the_place_of_a_step(shop: Path) -> None:
    row = {"user": "a", "total": 5, "_event_time": "10:00:59.999999"}
    with PipelineTrial(shop, date="2026-01-31", given=["totals"]) as trial:
        trial.feed("totals", [row])
        assert trial.rows("totals") == [{"user": "a", "total": 5}]
        assert trial.rows("running") == []


def test_tables_and_files_of_rows_are_given(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "t.yaml"
    path.write_text(LOOKUP, "utf-8")
    (tmp_path / "o.csv").write_text("id,customer\n1,7\n", "utf-8")
    with PipelineTrial(path, tables={"named": [{"c": 7, "name": "null ${x}"}]}) as trial:
        trial.feed("orders", tmp_path / "o.csv")
        assert trial.rows("named") == [{"id": 1, "customer": 7, "name": "null ${x}"}]
    (tmp_path / "o.csv").write_text("id,customers\n1,7\n", "utf-8")
    with (
        PipelineTrial(path, tables={"named": []}) as trial,
        pytest.raises(ValueError, match=r'o.csv:1:1: .*no column "customers"'),
    ):
        trial.feed("orders", tmp_path / "o.csv")


def test_a_failure_is_expected_or_fails_the_test(shop: Path) -> None:
    shop.write_text(FAILING, "utf-8")
    with PipelineTrial(shop, date="2026-01-31") as trial:
        trial.feed("orders", [order(5)])
        trial.end()
        trial.expect(fails="a")
    with pytest.raises(AssertionError, match=rf"{HERE}:\d+:\d+: the job has failed: totals: "):
        end_trial(shop)


def end_trial(shop: Path) -> None:
    with PipelineTrial(shop, date="2026-01-31") as trial:
        trial.feed("orders", [order(5)])
        trial.end()


def test_rows_that_depend_on_batches_are_reported(tmp_path: Path) -> None:
    (tmp_path / "t.yaml").write_text(BATCHED, "utf-8")
    code = """\
import polars as pl

def count(rows):
    return rows.select(n=pl.col("amount").cast(pl.Int32)).head(1)
"""
    (tmp_path / "code.py").write_text(code, "utf-8")
    with PipelineTrial(tmp_path / "t.yaml") as trial:
        trial.feed("orders", [{"amount": amount} for amount in range(20)])
        with pytest.raises(AssertionError, match="counted: the rows differ at parallelism 3, with"):
            trial.rows("counted")
    with PipelineTrial(tmp_path / "t.yaml", parallelism=1) as trial:
        trial.feed("orders", [{"amount": 1}, {"amount": 2}])
        assert trial.rows("counted") == [{"n": 1}]


def test_a_difference_is_shown_as_by_the_command(shop: Path) -> None:
    with PipelineTrial(shop, date="2026-01-31") as trial:
        trial.feed("orders", [order(5)])
        with pytest.raises(AssertionError) as raised:
            trial.expect(running=[{"user": "a", "n": 2}])
        _, *lines = str(raised.value).splitlines()
        assert lines == ["    user  n", "  - a     2", "  + a     1"]
        trial.end()
        assert trial.rows("totals") == [{"user": "a", "total": 5}]


MISTAKES: list[tuple[Callable[[PipelineTrial], object], str]] = [
    (lambda t: t.feed("order", []), 'there is no source or step "order"'),
    (lambda t: t.feed("orders", [{"usr": "a"}]), 'there is no column "usr"'),
    (lambda t: t.feed("orders", [{"amount": "x"}]), 'amount: wanted int, got "x"'),
    (lambda t: t.feed("orders", "x"), "orders: wanted a list of rows"),
    (lambda t: t.feed("totals", []), '"totals" is a step, and its rows are not given'),
    (lambda t: t.feed_splits("orders", [[], []]), '"orders" has 1 split, got 2'),
    (
        lambda t: t.feed_bad("orders", '{"ts": "2026-01-31T10:00:00Z"}'),
        '"orders" can read this record',
    ),
    (lambda t: t.watermark(orders="x"), 'watermark: wanted a time, got "x"'),
    (lambda t: t.idle(orders=1), '"orders" has no split 1'),
    (lambda t: t.advance("soon"), "advance: wanted a duration"),
    (lambda t: t.rows("total"), 'there is no stream "total"'),
    (lambda t: t.rows("totals", changelog=True), "it has no changelog"),
    (lambda t: t.expect(totals={"where": "total +"}), "test "),
    (lambda t: t.expect(totals=[{"user": "a"}]), 'the expected row has no "total"'),
]


@pytest.mark.parametrize(("call", "message"), MISTAKES)
def test_a_mistake_is_reported_at_the_call(
    call: Callable[[PipelineTrial], object], message: str, shop: Path
) -> None:
    with PipelineTrial(shop, date="2026-01-31") as trial:
        with pytest.raises(ValueError) as raised:
            call(trial)
        first = str(raised.value).splitlines()[0]
        assert f"{HERE}:{call.__code__.co_firstlineno}:" in first
        assert message in first
        assert trial.rows("totals") == []


def test_a_watermark_does_not_go_back_and_nothing_follows_the_end(shop: Path) -> None:
    trial = PipelineTrial(shop, date="2026-01-31")
    with pytest.raises(ValueError, match="only inside of a with block"):
        trial.end()
    with trial:
        trial.watermark(orders="10:01")
        with pytest.raises(ValueError, match='the watermark of "orders" goes back'):
            trial.watermark(orders="10:00")
        trial.end()
        with pytest.raises(ValueError, match="the inputs have ended"):
            trial.feed("orders", [])


def test_mistakes_are_found_before_the_job_starts(shop: Path) -> None:
    for options, message in (
        ({"given": ["total"]}, 'given: there is no step "total"'),
        ({"splits": {"order": 2}}, 'splits: there is no source "order"'),
        ({"tables": {"totals": []}}, 'no step looks up a table "totals"'),
        ({"date": "today"}, 'date: wanted a date such as 2026-01-31, got "today"'),
    ):
        with pytest.raises(ValueError, match=message):
            PipelineTrial(shop, **options)
    shop.write_text(HEAD.replace("sum(amount)", "sum(amont)"), "utf-8")
    with pytest.raises(ValueError, match=r'shop.yaml:\d+:\d+: .*"amont"'):
        PipelineTrial(shop)


def test_a_trial_has_no_place_in_a_running_loop(shop: Path) -> None:
    async def begin() -> None:
        with pytest.raises(ValueError, match="another one is running"), PipelineTrial(shop):
            pass

    asyncio.run(begin())
