"""Joins whose pipeline is changed between two runs: the rows are those that both mean."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from headrace.connectors.memory import MemoryEvent
from headrace.core.checkpoint.compatibility import RestoreOptions, check_compatibility
from headrace.core.types.elements import DELETE
from headrace.state.rocks.backend import RocksBackend
from headrace.state.storage.home import Home
from tests.support.runtime.changed_pipelines import (
    document,
    notes,
    plan,
    refusal,
    refused_unless_anew,
)
from tests.support.runtime.crashing_jobs import Fate, FlakyMemory, Life
from tests.support.runtime.faulty_disk import FaultyDisk

BEGIN = datetime(2026, 1, 31, 8, tzinfo=UTC)
COLUMNS = {"k": pl.Int64(), "v": pl.Int64(), "s": pl.String(), "at": pl.Datetime("us", "UTC")}
SCHEMA = "schema: {k: bigint, v: bigint, s: string, at: timestamp}, event_time: at"
HEAD = f"""
sources:
  a: {{memory: {{data: left}}, {SCHEMA}, watermark: {{delay: 20s}}}}
  b: {{memory: {{data: right}}, {SCHEMA}, watermark: {{delay: 20s}}}}
steps:
"""
Row = tuple[Any, ...]

LEFT: tuple[list[Row], list[Row]] = (
    [(1, 10, "a", 0), (2, 20, "b", 1), (3, 30, "c", 2)],
    [(1, 11, "d", 5), (2, 21, "e", 6)],
)
RIGHT: tuple[list[Row], list[Row]] = (
    [(1, 100, "A", 0), (2, 200, "B", 0)],
    [(3, 300, "C", 3), (1, 101, "D", 4)],
)
"""k, v, s, and the seconds since the beginning, of rows before and after the change."""

NEAR = "join: {left: a, right: b, on: a.k = b.k, within: 10s}"
VERSION = "join: {left: a, right: b, on: a.k = b.k, as_of: true, type: left}"
RULES = "from: a, broadcast: {rules: b, on: a.k = b.k, keep: {key: k}, type: left}"
WINDOW = "join: {left: a, right: b, on: a.k = b.k}, window: {tumble: 60s}"
CHANGES = """  mine: {from: a, key: k, aggregate: {n: count(*), most: max(v)}}
  theirs: {from: b, key: k, aggregate: {n: count(*), least: min(v)}}
"""
TABLE = "join: {left: mine, right: theirs, on: mine.k = theirs.k, type: left}"


def pipeline(step: str, before: str = "", behind: str = "") -> str:
    """A pipeline of a join, with steps before and after it."""
    sink = "far" if behind else "step"
    far = f"  far: {{from: step, {behind}}}\n" if behind else ""
    text = f"{HEAD}{before}  step: {{{step}}}\n{far}"
    return f"{text}sinks: {{o: {{from: {sink}, memory: {{data: out}}}}}}\n"


def rows(values: Sequence[Row]) -> pl.DataFrame:
    """Rows as they come."""
    timed = [(*rest, BEGIN + timedelta(seconds=second)) for *rest, second in values]
    return pl.DataFrame(timed, COLUMNS, orient="row")


class Job:
    """A job of two inputs whose pipeline is changed once, between their rows."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        inputs: dict[str, dict[str, list[MemoryEvent]]] = {
            name: {"0": [rows(before), 5.0, rows(after)]}
            for name, (before, after) in {"left": LEFT, "right": RIGHT}.items()
        }
        self.memory = FlakyMemory(inputs)
        self.disk, self.root = FaultyDisk(), str(folder / "home")
        self.life = Life(folder, "", self.memory, disk=self.disk, root=self.root)
        self.told: tuple[str, ...] = ()

    def before(self, text: str) -> None:
        """Run until the first rows have been read."""
        self.life.text = text
        assert self.life.run(1, Fate(stopped_at=2.0)).failure is None

    def after(self, text: str, names: str, *fresh: str, lose: bool = False) -> list[Row]:
        """Resume with another pipeline to the end; return these columns of its final output."""
        home = Home(self.disk, self.root, "test")
        with home.hold(""):
            store = home.open_store(home.ensure_job_id(""))
            number = max(store.list_checkpoints())
            wishes = RestoreOptions(frozenset(fresh), lose)
            now = plan(self.folder, text)
            self.told = check_compatibility(number, store.read_manifest(number), now, wishes)
        self.life.text, self.life.fresh = text, frozenset(fresh)
        outcome = self.life.run(2)
        assert outcome.failure is None, outcome.failure
        table: dict[object, Row] = {}
        changes = (row for f in self.memory.outputs["out"] for row in f.rows(named=True))
        for number, row in enumerate(changes):
            key = row["k"] if DELETE in row else number
            table[key] = tuple(row.get(name) for name in names.split())
            if row.get(DELETE):
                del table[key]
        return sorted(table.values(), key=repr)


@pytest.fixture(params=["memory", "disk"])
def job(request: pytest.FixtureRequest, tmp_path: Path) -> Job:
    """A job with state in memory, or nearly all on disk."""
    made = Job(tmp_path)
    if request.param == "disk":
        made.life.backend = partial(RocksBackend, str(tmp_path / "state"), 1)
    return made


PAIRS = [(1, "A", "a"), (1, "A", "d"), (1, "D", "a"), (1, "D", "d")]
VERSIONS = [(1, "A", "a"), (1, "D", "d")]
JOINS = {
    "within": (NEAR, PAIRS),
    "within, full": (f"{NEAR[:-1]}, type: full}}", PAIRS),
    "for ever": (NEAR.replace(", within: 10s", ""), PAIRS),
    "by the wall clock": (
        NEAR.replace("within: 10s", "ttl: {after: 10h, time: processing}"),
        PAIRS,
    ),
    "windows": (WINDOW, PAIRS),
    "sessions": (WINDOW.replace("tumble", "session"), PAIRS),
    "one window": (WINDOW.replace("tumble: 60s", "global: true"), PAIRS),
    "as_of": (VERSION, VERSIONS),
    "as_of for a time": (VERSION.replace("as_of: true", "as_of: true, ttl: 1h"), VERSIONS),
    "broadcast": (RULES, VERSIONS),
}
BEFORE = ("a", "A")
"""Of the rows of before, the values of `s`."""
FEW, ALL = "select: {k: a.k, v: a.v, w: b.v}", "select: {k: a.k, t: b.s, s: a.s, w: b.v, v: a.v}"


def of_one(rows: Sequence[Row]) -> list[Row]:
    """The rows of the key 1, sorted."""
    return sorted((row for row in rows if row[0] == 1), key=repr)


@pytest.mark.parametrize("step", JOINS)
def test_new_columns_are_null_in_rows_of_before(job: Job, step: str) -> None:
    join, wanted = JOINS[step]
    job.before(pipeline(f"{join}, {FEW}"))
    found = job.after(pipeline(f"{join}, {ALL}"), "k t s")
    null = [tuple(None if each in BEFORE else each for each in row) for row in wanted]
    assert of_one(found) == of_one(null)
    assert job.told == (
        "step has column `a.s` only for new rows",
        "step has column `b.s` only for new rows",
    )


@pytest.mark.parametrize("step", JOINS)
def test_columns_may_go(job: Job, step: str) -> None:
    join, wanted = JOINS[step]
    job.before(pipeline(f"{join}, {ALL}"))
    now = pipeline(f"{join}, select: {{k: a.k, s: a.s}}")
    assert of_one(job.after(now, "k s", lose=True)) == of_one([(k, s) for k, _, s in wanted])
    gone = ("`a.v`", "`b.v`", "`b.s`")
    assert job.told == tuple(f"resumes without column {n} in the state of step" for n in gone)


def test_a_column_renamed_after_the_join_is_the_same_column(job: Job) -> None:
    """The right input has no `s` at first; then both have one, and the left one is `a.s`."""
    join = NEAR.replace("right: b", "right: {from: few, as: b}")
    without = "  few: {from: b, select: {k: k, v: v}}\n"
    job.before(pipeline(f"{join}, select: {{k: a.k, s: s}}", without))
    now = pipeline(f"{join}, select: {{k: a.k, s: a.s, t: b.s}}", without.replace("v: v", "s: s"))
    wanted = [(1, "a", None), (1, "d", None), (1, "a", "D"), (1, "d", "D")]
    assert of_one(job.after(now, "k s t")) == of_one(wanted)
    assert job.told[0] == "step has column `b.s` only for new rows"


@pytest.mark.parametrize("step", JOINS)
@pytest.mark.parametrize("last", ["", ", s: last(s)"], ids=["no more", "from now on"])
def test_rows_know_their_place(job: Job, step: str, last: str) -> None:
    join, wanted = JOINS[step]
    count = "key: k, window: {tumble: 1h}, aggregate: {n: count(*)"
    counted, ordered = (
        pipeline(f"{join}, {ALL}", "", f"{count}{more}}}") for more in ("", ", s: last(s)")
    )
    job.before(counted if last else ordered)
    found = job.after(ordered if last else counted, "k n s", lose=True)
    assert of_one(found) == [(1, len(wanted), "d" if last else None)]


OF_TABLE = "select: {k: mine.k, x: most, y: least}"
TTLS = [("", ", ttl: 1h"), (", ttl: 1h", ""), (", ttl: 1h", ", ttl: 2h")]


@pytest.mark.parametrize(("before", "now"), TTLS)
@pytest.mark.parametrize("join", [VERSION, TABLE])
def test_rows_are_remembered_under_another_ttl(job: Job, join: str, before: str, now: str) -> None:
    if join == TABLE:
        text, wanted = pipeline(f"{TABLE}, {OF_TABLE}", CHANGES), [(1, 11, 100)]
    else:
        text = pipeline(f"{VERSION}, select: {{k: a.k, x: a.v, y: b.v}}")
        wanted = [(1, 10, 100), (1, 11, 101)]
    job.before(text.replace(", type:", f"{before}, type:"))
    assert of_one(job.after(text.replace(", type:", f"{now}, type:"), "k x y")) == wanted
    assert job.told == ()


def test_changes_have_new_columns_and_others_go(job: Job) -> None:
    job.before(pipeline(f"{TABLE}, select: {{k: mine.k, x: most, n: mine.n}}", CHANGES))
    now = pipeline(f"{TABLE}, select: {{k: mine.k, m: theirs.n, y: least, x: most}}", CHANGES)
    found = job.after(now, "k x m y", lose=True)
    assert found == [(1, 11, 2, 100), (2, 21, None, None), (3, 30, 1, 300)]
    assert job.told == (
        "resumes without column `mine.n` in the state of step",
        "step has column `theirs.n` only for new rows",
        "step has column `theirs.least` only for new rows",
    )


def test_a_join_can_be_reset(job: Job) -> None:
    job.before(pipeline(f"{NEAR}, {FEW}"))
    found = job.after(pipeline(f"{NEAR.replace('10s', '20s')}, {FEW}"), "k v w", "step")
    assert of_one(found) == [(1, 10, 100), (1, 11, 101)]


SAME = {
    "how it is written": (NEAR, NEAR.replace("a.k = b.k", "(a.k=b.k)").replace("10s", "10000ms")),
    "both bounds": (NEAR, NEAR.replace("10s", "[-10s, 10s]")),
    "a ttl by event time is as long as bounds": (NEAR, NEAR.replace("within", "ttl")),
    "the ttl of an as_of": (
        VERSION.replace("true", "true, ttl: 1h"),
        VERSION.replace("true", "true, ttl: 2h"),
    ),
    "how long rules hold": (RULES, RULES.replace("key: k", "key: k, ttl: 1h")),
}
OTHER = {
    "another condition": (
        NEAR,
        NEAR.replace("b.k,", "b.k and a.v < b.v,"),
        "belongs to another operation",
    ),
    "another right key": (NEAR, NEAR.replace("= b.k", "= b.v"), "belongs to another operation"),
    "another left key": (NEAR, NEAR.replace("a.k =", "a.v ="), "has another key"),
    "other bounds": (NEAR, NEAR.replace("10s", "[0s, 10s]"), "belongs to another operation"),
    "another type": (NEAR, NEAR.replace("10s", "10s, type: full"), "belongs to another operation"),
    "no bounds": (NEAR, NEAR.replace(", within: 10s", ""), "belongs to another operation"),
    "the wall clock": (
        NEAR.replace("within: 10s", "ttl: 10s"),
        NEAR.replace("within: 10s", "ttl: {after: 10s, time: processing}"),
        "belongs to another operation",
    ),
    "versions": (NEAR, VERSION, "belongs to another operation"),
    "another window": (WINDOW, WINDOW.replace("60s", "50s"), "has another window"),
    "another key of rules": (
        RULES,
        RULES.replace("{key: k}", "{key: s}"),
        "belongs to another operation",
    ),
    "rules as they come": (
        RULES,
        RULES.replace("rules: b", "rules: b, order: arrival"),
        "belongs to another operation",
    ),
}


@pytest.mark.parametrize("what", SAME)
def test_what_means_the_same_is_no_difference(what: str, tmp_path: Path) -> None:
    before, after = SAME[what]
    was = document(plan(tmp_path, pipeline(f"{before}, {FEW}")))
    assert notes(was, plan(tmp_path, pipeline(f"{after}, {FEW}"))) == ()


@pytest.mark.parametrize("what", OTHER)
def test_a_changed_meaning_is_refused_unless_state_is_reset(what: str, tmp_path: Path) -> None:
    before, after, why = OTHER[what]
    was = document(plan(tmp_path, pipeline(f"{before}, {FEW}")))
    now = plan(tmp_path, pipeline(f"{after}, {FEW}"))
    refused_unless_anew(was, now, why)


def test_both_texts_are_shown(tmp_path: Path) -> None:
    was = document(plan(tmp_path, pipeline(f"{NEAR}, {FEW}")))
    now = plan(tmp_path, pipeline(f"{NEAR.replace('10s', '1m')}, {FEW}"))
    columns = "`a.k` bigint, `a.v` bigint, `b.v` bigint"
    join = "key k bigint; inner join on (a.k = b.k), within"
    assert refusal(was, now).splitlines()[1:3] == [
        f"      was: {join} -10s and 10s; keeps {columns}",
        f"      is:  {join} -1m and 1m; keeps {columns}",
    ]


def test_another_type_of_a_column_is_refused(tmp_path: Path) -> None:
    join = NEAR.replace("left: a", "left: {from: c, as: a}")
    before = "  c: {from: a, with: {v: v * 2}}\n"
    was = document(plan(tmp_path, pipeline(f"{join}, {FEW}", before)))
    now = plan(tmp_path, pipeline(f"{join}, {FEW}", before.replace("v * 2", "v / 2")))
    assert "the state of step has a.v of another type" in refusal(was, now)
