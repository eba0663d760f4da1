"""Exceptions of every kind, raised by every kind of user code: each is reported as the user's."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.support.cli.command_line import Headrace

CODE = """\
import asyncio, os
import polars as pl
from headrace import Aggregate, Process, Trigger, timer


class NoText(Exception):
    def __str__(self):
        raise ValueError("no text")
    __repr__ = __str__


class Fixed(Exception):
    def __setattr__(self, name, value):
        raise TypeError("fixed")


def circle():
    one, two = ValueError("one"), ValueError("two")
    one.__cause__, two.__cause__ = two, one
    return one


def fail(here):
    if os.environ["PLACE"] == here:
        raise eval(os.environ["ERROR"])


fail("import")


def batch(rows):
    fail("batch")
    return rows.select("x")


def row(row):
    fail("row")
    return {"x": row["x"]}


def rows(rows):
    fail("apply")
    return rows.select("x")


def evict(rows):
    fail("evict")
    return rows


def watermark(rows):
    fail("watermark")
    return rows["at"].max()


class Fires(Trigger):
    def on_row(self, row, state, window):
        fail("trigger")
        return True


class Sums(Aggregate):
    state = {"total": "bigint"}

    def partial(self, values):
        fail("partial")
        return {"total": values.sum()}

    def merge(self, partials):
        fail("merge")
        return partials[0]

    def finish(self, partial):
        fail("finish")
        return partial["total"]


class Each(Process):
    over = timer()

    def __init__(self):
        fail("init")

    def on_row(self, row, state, out):
        fail("on_row")
        state.over = self.event_time
        out(x=row.x)

    def on_timer(self, at, state, out):
        fail("on_timer")


class Many(Process):
    def on_rows(self, rows, state, out):
        fail("on_rows")
        out(rows.select("x"))
"""
PIPELINE = """\
name: p
sources:
  ids:
    generate: {rows: 6, columns: {x: id, k: id %% 2, at: timestamp_seconds(id)}}
    event_time: at
    watermark: %s
steps:
  failing: {from: ids, %s}
sinks:
  out: {from: failing, console: {}}
"""
MAP = "map: {python: u.py:batch, returns: {x: bigint}}"
WINDOW = "key: k, window: {tumble: 2s%s}, aggregate: {%s}"
SUMS = WINDOW % ("", "n: {python: u.py:Sums, of: x, returns: bigint}")
EACH = "key: k, process: {python: u.py:%s, returns: {x: bigint}}"
PLACES = {
    "import": MAP,
    "batch": MAP,
    "row": "map: {python: u.py:row, returns: {x: bigint}, mode: row}",
    "watermark": MAP,
    "apply": "key: k, window: {tumble: 2s}, apply: {python: u.py:rows, returns: {x: bigint}}",
    "evict": WINDOW % (", evict: {python: u.py:evict, of: x}", "n: count(*)"),
    "trigger": WINDOW % (", trigger: {python: u.py:Fires, of: x}", "n: count(*)"),
    "partial": SUMS,
    "finish": SUMS,
    "init": EACH % "Each",
    "on_row": EACH % "Each",
    "on_timer": EACH % "Each",
    "on_rows": EACH % "Many",
}
ERRORS = {
    "NoText()": r"NoText: \(no text: its class raises ValueError\)",
    "Fixed('x')": "Fixed: x",
    "circle()": "ValueError: one",
    "GeneratorExit()": "GeneratorExit",
    "SystemExit(3)": "SystemExit: 3",
    "KeyboardInterrupt()": "KeyboardInterrupt",
    "StopIteration(4)": "StopIteration: 4",
    "asyncio.CancelledError()": "CancelledError",
    "ExceptionGroup('g', [KeyError('a')])": (
        r"ExceptionGroup: g \(1 sub-exception\), the first is KeyError: 'a'"
    ),
    "BaseExceptionGroup('g', [SystemExit(5)])": (
        r"BaseExceptionGroup: g \(1 sub-exception\), the first is SystemExit: 5"
    ),
}


@pytest.mark.parametrize("place", PLACES)
def test_whatever_user_code_raises_is_its_error_with_the_line(
    headrace: Headrace, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    of = '{python: "u.py:watermark"}' if place == "watermark" else "{delay: 1s}"
    Path("p.yaml").write_text(PIPELINE % (of, PLACES[place]))
    Path("u.py").write_text(CODE)
    line = 1 + CODE.splitlines().index('        raise eval(os.environ["ERROR"])')
    monkeypatch.setenv("PLACE", place)
    for error, text in ERRORS.items():
        monkeypatch.setenv("ERROR", error)
        ran = headrace("run", "p.yaml", "--limit", "6")
        assert ran.status in (1, 2), (error, ran.err)
        assert re.search(rf"u\.py:{line}: {text}( \(|$)", ran.err, re.MULTILINE), (error, ran.err)
        assert "bug in headrace" not in ran.err


@pytest.mark.parametrize("error", ["NoText()", "Fixed('x')", "circle()", "StopIteration(4)"])
@pytest.mark.parametrize("place", ["row", "on_row"])
def test_on_error_applies_to_exceptions_whatever_their_class_does(
    headrace: Headrace, monkeypatch: pytest.MonkeyPatch, place: str, error: str
) -> None:
    step = f"{PLACES[place]}, on_error: skip"
    Path("p.yaml").write_text(PIPELINE % ("{delay: 1s}", step))
    Path("u.py").write_text(CODE)
    monkeypatch.setenv("PLACE", place)
    monkeypatch.setenv("ERROR", error)
    ran = headrace("run", "p.yaml", "--limit", "6")
    assert ran.status == 0, ran.err
    assert re.search(r"^failing +6 +0 +6 ", ran.err, re.MULTILINE), ran.err
