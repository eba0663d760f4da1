"""A class gets values of every type, stores them, and gives the same ones after a restore."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path

import polars as pl
import pytest

from headrace.core.api.state_backend import StateBackend
from headrace.core.expressions import to_expr, type_expression
from headrace.core.types.data_types import BIGINT, Field, Schema, to_polars
from headrace.core.types.type_parser import parse_type
from headrace.state.memory.backend import MemoryBackend
from headrace.state.rocks.backend import RocksBackend
from headrace.state.savepoints.creation import take_savepoint
from headrace.state.savepoints.savepoint import open_savepoint
from tests.support.stopped_jobs import Row, Stopped, read, rows

VALUES = {
    "flag": ("boolean", "v = 1"),
    "tiny": ("tinyint", "tinyint(-v)"),
    "number": ("bigint", "9223372036854775807L"),
    "real": ("float", "float(v / 3)"),
    "double": ("double", "double('-0.0')"),
    "nan": ("double", "double('NaN')"),
    "text": ("string", "concat('é😀', v)"),
    "bytes": ("binary", "x'00ff'"),
    "cents": ("decimal(38,6)", "cast(99999999999999999999999999999999.999999 as decimal(38,6))"),
    "day": ("date", "date '0001-01-01' + int(v)"),
    "local": ("timestamp_ntz", "timestamp_ntz '2024-03-31 02:30:00.000001'"),
    "instant": ("timestamp", "timestamp '1969-12-31 23:59:59.999999'"),
    "clock": ("time(6)", "time '23:59:59.999999'"),
    "months": ("interval year to month", "make_ym_interval(-1, int(v))"),
    "length": ("interval day to second", "interval '-1 02:03:04.000005' day to second"),
    "entries": ("map<int,string>", "map(int(v), 'a', 2147483647, null)"),
    "days": ("map<string,date>", "map('', date '2024-02-29')"),
    "spans": ("array<interval year to month>", "array(make_ym_interval(1, 1), null)"),
    "nested": (
        "struct<m: map<string,array<decimal(5,2)>>, i: interval day to second>",
        "named_struct('m', map('k', array(cast(v as decimal(5,2)), null)), 'i', interval 1 hour)",
    ),
    "nothing": ("array<struct<a: time(6)>>", "cast(null as array<struct<a: time(6)>>)"),
}
"""Columns, with their types and the expressions that make them."""

SCHEMA = Schema((Field("v", BIGINT),))

CODE = """
from headrace import Process, list_of, map_of, value


class Stored(Process):
{states}
    rows = value("bigint", default=0)

    def on_row(self, row, state, out):
        if state.rows:
            out(k=row.k, which="value", {given})
            out(k=row.k, which="list", {listed})
            out(k=row.k, which="map", {mapped})
        state.rows += 1
{sets}
"""
BEFORE: list[Row] = [(1, "a", 1, 0.5, 0), (2, "b", 2, 1.0, 1)]
AFTER: list[Row] = [(1, "a", 1, 0.5, 2), (2, "b", 2, 1.0, 3)]


def write_class(folder: Path) -> str:
    """Write the class; return the clauses of its step."""
    forms = {"value": "value({})", "list": "list_of({})", "map": "map_of('string', {})"}
    states = [
        f"    {kind}_{name} = {form.format(repr(type))}"
        for kind, form in forms.items()
        for name, (type, _) in VALUES.items()
    ]
    sets = [
        f"        state.{kind}_{name}{how} = row.{name}"
        for kind, how in (("value", ""), ("map", "['x']"))
        for name in VALUES
    ]
    sets += [f"        state.list_{name}.append(row.{name})" for name in VALUES]
    text = CODE.format(
        states="\n".join(states),
        given=", ".join(f"{name}=state.value_{name}" for name in VALUES),
        listed=", ".join(f"{name}=state.list_{name}[0]" for name in VALUES),
        mapped=", ".join(f"{name}=state.map_{name}['x']" for name in VALUES),
        sets="\n".join(sets),
    )
    folder.mkdir(exist_ok=True)
    (folder / "stored.py").write_text(text)
    made = json.dumps({name: text for name, (_, text) in VALUES.items()}, ensure_ascii=False)
    returns = json.dumps(
        {"k": "bigint", "which": "string", **{name: type for name, (type, _) in VALUES.items()}}
    )
    return (
        f"from: rows, key: k, with: {made},"
        f" process: {{python: '{folder}/stored.py:Stored', order: arrival, returns: {returns}}}"
    )


@pytest.fixture(params=["memory", "rocks"])
def backend(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[], StateBackend]:
    if request.param == "memory":
        return MemoryBackend
    return partial(RocksBackend, str(tmp_path / "live"), 1)


def test_values_of_every_type_are_the_same_after_a_restore(
    tmp_path: Path, backend: Callable[[], StateBackend]
) -> None:
    step = write_class(tmp_path / "code")
    job = Stopped(tmp_path / "job", step, BEFORE, AFTER, backend=backend, on_disk=True)
    assert not job.put_out
    found = pl.concat(job.end())
    wanted = rows(AFTER).select(
        to_expr(type_expression(text, SCHEMA)).cast(to_polars(parse_type(type)[0])).alias(name)
        for name, (type, text) in VALUES.items()
    )
    for which in ("value", "list", "map"):
        given = found.filter(which=which).sort("k").select(*VALUES)
        assert given.schema == wanted.schema
        assert list(map(repr, given.rows())) == list(map(repr, wanted.rows()))


def test_a_savepoint_has_values_of_every_type(tmp_path: Path) -> None:
    job = Stopped(tmp_path / "job", write_class(tmp_path / "code"), BEFORE, on_disk=True)
    saved = take_savepoint(job.home, "test", None, str(tmp_path / "saved"))
    savepoint = open_savepoint(str(saved))
    for name in VALUES:
        for kind in ("value", "list", "map"):
            before, after = job.read(f"{kind}_{name}"), read(savepoint, f"{kind}_{name}")
            assert after.schema == before.schema
            of_job, of_savepoint = (sorted(map(repr, each.rows())) for each in (before, after))
            assert of_job == of_savepoint
            # A value that is None is none: nothing is stored of it.
            assert len(of_job) == (0 if f"{kind}_{name}" == "value_nothing" else 2)
