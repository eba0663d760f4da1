"""State as rows for people: literal rows, and the rows that the job emits from it."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.core.aggregates import AGGREGATES
from headrace.core.state_reader.keys import decode_keys
from headrace.core.state_reader.state_schema import StateSchema
from headrace.core.state_reader.step_states import StepStateReader
from headrace.core.types.data_types import STRING, Field, Schema
from headrace.core.types.elements import DELETE, HIDDEN_COLUMNS
from headrace.core.types.key_groups import encode_keys
from headrace.state.rocks.backend import RocksBackend
from headrace.state.savepoints.creation import take_savepoint
from headrace.state.savepoints.savepoint import open_savepoint
from tests.support.paths import WINDOW_CODE as CODE
from tests.support.stopped_jobs import Stopped, read, said, table

RULES = (
    "from: rows, key: k, match: {rules: rules, returns: {t: bigint}}}"
    "\n  rules: {from: rows, where: s = 'a' and v = 1, select: {rule: \"'up'\", "
    "pattern: \"'a -> b+ -> c'\", define: \"'{a: v < 4, b: v > 1, c: v = 9}'\", within: \"'1h'\"}"
)
"""A step with rules, and the step that has a row of one."""
KNOWN = {
    "partials of a user's class": (
        "from: rows, key: k, window: {slide: 10s, every: 5s},"
        f" aggregate: {{n: count(*), t: {{python: '{CODE}:Total', of: v, returns: string}}}}",
        "windows: k window_start window_end n t",
        [
            "- 0 10 1 [{'n': 1, 'total': 4}]",
            "1 0 10 3 [{'n': 2, 'total': 4}, {'n': 1, 'total': 1}]",
            "2 0 10 2 [{'n': 1, 'total': 2}, {'n': 1, 'total': 7}]",
            "2 5 15 1 [{'n': 1, 'total': 7}]",
        ],
    ),
    "partials of a user's class, without a window": (
        f"from: rows, aggregate: {{t: {{python: '{CODE}:Words', of: [s, v], returns: string}}}}",
        "keys: t event_time",
        ["""[{'json': '[["a", "b", "c"], 1]'}] 7"""],
    ),
    "rows for a user-defined function": (
        "from: rows, where: v > 2, key: {k: k}, window: {tumble: 10s},"
        f" apply: {{python: '{CODE}:spread', returns: {{v: bigint}}, of: [v, s]}}",
        "windows: k window_start window_end row s v",
        ["- 0 10 1 a 4", "1 0 10 1 c 3", "2 0 10 1 b 7"],
    ),
    "rows that a user-defined evictor leaves": (
        "from: rows, where: v > 2, key: {k: k},"
        f" window: {{session: 9s, evict: {{python: '{CODE}:small', of: v}}}},"
        " aggregate: {m: max(s)}",
        "open: k window_start window_end row s v",
        ["1 2 11 1 c 3", "- 3 12 1 a 4", "2 7 16 1 b 7"],
    ),
    "windows with a user-defined trigger": (
        "from: rows, key: {k: k},"
        f" window: {{slide: 10s, every: 5s, trigger: {{python: '{CODE}:EveryThree', of: v}}}},"
        " aggregate: {n: count(*)}",
        "windows: k window_start window_end n",
        ["- 0 10 1", "1 0 10 3", "2 0 10 2", "2 5 15 1"],
    ),
    "timers of a user-defined trigger": (
        "from: rows, key: k,"
        f" window: {{tumble: 1h, trigger: {{python: '{CODE}:Settled', of: at}}}},"
        " aggregate: {n: count(*)}",
        "due: k time",
        ["1 10", "2 11", "- 13"],
    ),
    "tumble": (
        "from: rows, key: {odd: k % 2}, window: {tumble: 10s},"
        " aggregate: {n: count(*), mean: avg(v), last: 'last(s, true)'}",
        "windows: odd window_start window_end n mean last",
        ["- 0 10 1 4.0 a", "0 0 10 2 4.5 b", "1 0 10 3 1.6666666666666667 c"],
    ),
    "slide": (
        "from: rows, key: k, window: {slide: 10s, every: 5s}, aggregate: {n: count(*)}",
        "windows: k window_start window_end n",
        ["- 0 10 1", "1 0 10 3", "2 0 10 2", "2 5 15 1"],
    ),
    "cumulate": (
        "from: rows, window: {cumulate: 10s, every: 5s}, aggregate: {n: count(*)}",
        "windows: window_start window_end n",
        ["0 10 6"],
    ),
    "windows that took late rows": (
        "from: rows, key: k, window: {tumble: 5s, lateness: 1h}, aggregate: {t: sum(v)}",
        "windows: k window_start window_end t",
        ["- 0 5 4", "1 0 5 5", "2 0 5 2", "2 5 10 7"],
    ),
    "sessions": (
        "from: rows, key: k, window: {session: 3s}, aggregate: {n: count(*), m: max(x)}",
        "open: k window_start window_end n m",
        ["1 0 7 3 nan", "2 7 10 1 -2.0"],
    ),
    "emitted sessions": (
        "from: rows, key: k, window: {session: 3s, lateness: 1h}, aggregate: {n: count(*)}",
        "shown: k window_start window_end n",
        ["2 1 4 1", "- 3 6 1"],
    ),
    "sessions that discarded their rows": (
        "from: rows, key: k, window: {session: 3s, trigger: {count: 1}, accumulate: false},"
        " aggregate: {n: count(*)}",
        "fired: k window_start window_end",
        ["1 0 7", "2 7 10"],
    ),
    "sessions with a user-defined trigger": (
        f"from: rows, key: k, window: {{session: 3s, trigger: {{python: '{CODE}:EveryThree',"
        " of: v}}, aggregate: {n: count(*)}",
        "shown: k window_start window_end n",
        ["2 7 10 1"],
    ),
    "count windows": (
        "from: rows, key: k, window: {count: 4, every: 2}, aggregate: {n: count(*), m: max(v)}",
        "panes: k pane rows n m",
        ["- 0 1 1 4", "1 0 2 2 3", "1 1 1 1 1", "2 0 2 2 7"],
    ),
    "rows of keys in count windows": (
        "from: rows, key: k, window: {count: 4}, top: {n: 1, by: v}",
        "counts: k rows",
        ["- 1", "1 3", "2 2"],
    ),
    "one window": (
        "from: rows, window: {global: true, trigger: {count: 4}}, aggregate: {n: count(*)}",
        "windows: n event_time",
        ["6 7"],
    ),
    "windows that changed": (
        "from: rows, key: k, window: {tumble: 10s, trigger: {every: 100s, time: processing}},"
        " aggregate: {n: count(*)}",
        "changed: k window_start window_end",
        ["- 0 10", "1 0 10", "2 0 10"],
    ),
    "rows that an evictor leaves": (
        "from: rows, key: k, window: {tumble: 10s, evict: {last: 2}},"
        " aggregate: {n: count(s), t: sum(v)}",
        "windows: k window_start window_end row s v",
        ["- 0 10 1 a 4", "1 0 10 1 c 3", "1 0 10 2 - 1", "2 0 10 1 b 2", "2 0 10 2 b 7"],
    ),
    "runs of a pattern": (
        "from: rows, key: k, match: {pattern: a -> b+ -> c, define: {a: v < 4, b: v > 1, c: v = 9},"
        " within: 1h, emit: {t: sum(b.v)}}",
        "keys: k match_start reached rows ways",
        ["1 0 b 2 1", "1 2 a 1 1", "1 4 a 1 1", "2 1 a 1 1"],
    ),
    "runs of rules": (
        RULES,
        "keys: k rule match_start reached rows ways",
        ["1 up 0 b 2 1", "1 up 2 a 1 1", "1 up 4 a 1 1", "2 up 1 a 1 1"],
    ),
    "rules that hold": (
        RULES,
        "rules: rule pattern define within event_time",
        ["up a -> b+ -> c {a: v < 4, b: v > 1, c: v = 9} 1h 0"],
    ),
    "rules that wait": (
        RULES.replace("s = 'a' and v = 1", "s = 'b' and v = 7"),
        "held_right: rule pattern define within event_time",
        ["up a -> b+ -> c {a: v < 4, b: v > 1, c: v = 9} 1h 7"],
    ),
    "rows that wait for rules": (
        RULES,
        "waiting: k s v x at event_time",
        ["2 b 7 -2.0 7 7"],
    ),
    "times of runs of rules": (
        RULES,
        "due: k rule time",
        ["1 up 3600", "2 up 3601"],
    ),
    "running": (
        "from: rows, key: {k: k, until: s}, aggregate: {n: count(*)}, having: n > 1, ttl: 1h",
        "keys: k until n event_time emitted until_",
        [
            *("- a 1 3 False 3603", "1 - 1 4 False 3604", "1 a 1 0 False 3600"),
            *("1 c 1 2 False 3602", "2 b 2 7 True 3607"),
        ],
    ),
    "running, of all rows": (
        "from: rows, aggregate: {n: count(*), share: 'sum(v) / count(*)'}",
        "keys: n share event_time",
        ["6 3.0 7"],
    ),
    "top": (
        "from: rows, key: k, top: {n: 2, by: v desc}, ttl: 10s, select: {k: k, v: v, rank: rank}",
        "keys: k rank v event_time until",
        ["- 1 4 3 13", "1 1 3 4 14", "1 2 1 4 14", "2 1 7 7 17", "2 2 2 7 17"],
    ),
    "top of windows": (
        "from: rows, key: {k: k}, window: {tumble: 10s}, top: {n: 1, by: v * -1},"
        " select: {k: k, v: v, s: s}",
        "windows: k window_start window_end rank s v",
        ["- 0 10 1 a 4", "1 0 10 1 c 3", "2 0 10 1 b 7"],
    ),
    "top of windows by a key that is called like another column": (
        "from: rows, key: {v: v % 2}, window: {tumble: 10s}, top: {n: 1, by: v desc},"
        " select: {s: s, v: v}",
        "windows: v window_start window_end rank s v_",
        ["0 0 10 1 a 4", "1 0 10 1 b 7"],
    ),
    "top of changes": (
        "from: made, key: k, top: {n: 1, by: [n desc, s]}}"
        "\n  made: {from: rows, key: [k, s], aggregate: {n: count(*)}",
        "keys: k rank s n event_time",
        ["- 1 a 1 3", "1 1 - 1 4", "2 1 b 2 7"],
    ),
    "top of changes with ties": (
        "from: made, top: {n: 2, by: n desc, ties: dense_rank}}"
        "\n  made: {from: rows, key: [k, s], aggregate: {n: count(*)}",
        "keys: rank k s n event_time",
        ["1 2 b 2 7", "2 - a 1 7", "2 1 - 1 7", "2 1 a 1 7", "2 1 c 1 7"],
    ),
    "top of facts with ties": (
        "from: rows, key: k, top: {n: 2, by: s, ties: rank}, select: {s: s, v: v, rank: rank}",
        "keys: k rank s v event_time",
        ["- 1 a 4 3", "1 1 - 1 4", "1 2 a 1 4", "2 1 b 2 7", "2 1 b 7 7"],
    ),
    "aggregate of changes": (
        "from: made, key: {k: k}, aggregate: {m: max(n), t: sum(n) + 1}, having: m < 3}"
        "\n  made: {from: rows, key: [k, s], aggregate: {n: count(*)}",
        "keys: k m t event_time",
        ["- 1 2 3", "1 1 4 4", "2 2 3 7"],
    ),
    "rows of changes": (
        "from: made, key: {odd: k % 2}, aggregate: {m: max(n)}}"
        "\n  made: {from: rows, key: k, aggregate: {n: count(*)}",
        "rows: odd row n",
        ["- - 1", "0 1:2 2", "1 1:1 3"],
    ),
    "dedup": (
        "from: rows, dedup: {key: [k, s]}",
        "keys: k s",
        ["- a", "1 -", "1 a", "1 c", "2 b"],
    ),
    "dedup by event time": (
        "from: rows, dedup: {key: {v: v > 2}, ttl: 1m, order: event_time}, select: {k: k, v: v}",
        "waiting: v k v_ event_time",
        ["True 2 7 7"],
    ),
    "what is carried over the rows of a key": (
        "from: rows, key: k, ttl: 1m,"
        " over: {n: row_number(), t: sum(v), l: lag(v * 2), f: lead(v)}",
        "keys: k sum(v) earlier_rows stored_rows waiting_rows event_time until",
        ["- - 0 1 1 3 63", "1 1 1 2 1 4 64", "2 - 0 1 1 1 61"],
    ),
    "rows that wait to be ordered": (
        "from: rows, key: {big: v > 2}, over: {l: lag(v * 2)}, select: {k: k, l: l}",
        "waiting: big k v event_time",
        ["True 2 7 7"],
    ),
    "keys that wait for their next row": (
        "from: rows, key: k, over: {f: lead(v)}, ttl: 1m",
        "due: k time",
        ["- 63", "1 60", "1 62", "1 64", "2 61"],
    ),
    "dedup for a time": (
        "from: rows, dedup: {key: {big: v > 2}, ttl: 1m}",
        "keys: big event_time until",
        ["False 4 64", "True 7 67"],
    ),
}


@pytest.mark.parametrize(("step", "columns", "known"), KNOWN.values(), ids=KNOWN)
def test_rows_of_a_state(tmp_path: Path, step: str, columns: str, known: list[str]) -> None:
    state, _, names = columns.partition(": ")
    found = Stopped(tmp_path, step).read(state)
    assert " ".join(found.columns) == names
    assert sorted(said(found)) == sorted(known)


@pytest.mark.parametrize(("step", "columns", "known"), KNOWN.values(), ids=KNOWN)
def test_what_tells_rows_apart(tmp_path: Path, step: str, columns: str, known: list[str]) -> None:
    state = columns.partition(":")[0]
    with Stopped(tmp_path, step).kept() as kept:
        by = StepStateReader.from_document(
            "step", kept.document, kept.thaw_step("step")
        ).list_identity_columns(state)
        found = read(kept, state).select(by) if by else pl.DataFrame({"one": known})
    assert found.height == len(known) == len({repr(row) for row in found.rows()})
    assert state in ("waiting", "held_right") or not {
        "n",
        "t",
        "m",
        "mean",
        "rows",
        "event_time",
    } & {*by}


WINDOWS = {
    "tumble": "key: {odd: k % 2, s: s}, window: {tumble: 10s}",
    "no key": "window: {tumble: 3s}",
    "slide": "key: k, window: {slide: 9s, every: 3s, offset: 1s}",
    "slide apart": "key: k, window: {slide: 2s, every: 3s}",
    "cumulate": "key: k, window: {cumulate: 12s, every: 3s}",
    "session": "key: k, window: {session: 3s}",
    "session without key": "window: {session: 2s}",
    "global": "key: k, window: {global: true}",
    "trigger": "key: k, window: {slide: 10s, every: 5s, trigger: {every: 2s}}",
    "count": "key: k, window: {slide: 10s, every: 5s, trigger: {count: 4}}",
}
MADE = {
    "aggregate": "aggregate: {n: count(*), m: 'sum(v) / count(x)', l: collect_list(s), x: max(x)}",
    "top": "top: {n: 2, by: x desc}, select: {k: k, v: v, rank: rank}",
}


BOTH = [(w, m) for w in WINDOWS for m in MADE if m == "aggregate" or "trigger" not in WINDOWS[w]]


@pytest.mark.parametrize("parallelism", [1, 2])
@pytest.mark.parametrize(("window", "made"), BOTH)
def test_windows_are_read_as_they_are_emitted(
    tmp_path: Path, window: str, made: str, parallelism: int
) -> None:
    step = f"from: rows, {WINDOWS[window]}, {MADE[made]}"
    job = Stopped(tmp_path, step, parallelism=parallelism)
    found = job.read("open" if "session" in window else "windows")
    end = pl.concat(job.end()).drop(HIDDEN_COLUMNS, strict=False)
    assert found.height
    names = [name for name in end.columns if name in found.columns]
    assert {*end.columns} - {*names} == set()
    assert sorted(said(found.select(names))) == sorted(said(end.select(names)))


ARGUMENTS = {
    **dict.fromkeys(("min_by", "max_by"), "s, v"),
    **dict.fromkeys(("bool_and", "every", "bool_or", "some", "any"), "v > 2"),
    **dict.fromkeys(("covar_pop", "covar_samp", "corr"), "v, x"),
    **{name: "v, x" for name in AGGREGATES if name.startswith("regr_")},
    **dict.fromkeys(("percentile", "percentile_approx", "approx_percentile"), "v, 0.5"),
    **dict.fromkeys(("percentile_cont", "percentile_disc"), "0.5) within group (order by v"),
    **dict.fromkeys(("listagg", "string_agg"), "s"),
    **{"collect_union": "array(v)", "histogram_numeric": "v, 3"},
}
"""The arguments of the aggregates that do not take one number."""

CALLS = {
    **{name: f"{name}({ARGUMENTS.get(name, 'v')})" for name in AGGREGATES if name != "count_if"},
    "count_if": "count_if(v > 2)",
    "a filter": "sum(v) filter (where s is not null)",
    "different ones": "count(distinct s, v)",
    "first that is not null": "first(s, true)",
    "an exact mean": "avg(cast(v as decimal(30,3)))",
    "of the key": "concat(max(s), k)",
    "a function of two": "round(sum(x) / count(*), 2)",
}


@pytest.mark.parametrize("parallelism", [1, 2])
def test_every_aggregate_is_read_as_it_is_emitted(tmp_path: Path, parallelism: int) -> None:
    columns = ", ".join(f'c{number}: "{text}"' for number, text in enumerate(CALLS.values()))
    job = Stopped(
        tmp_path, f"from: rows, key: k, aggregate: {{{columns}}}", parallelism=parallelism
    )
    names = ["k", *(f"c{number}" for number in range(len(CALLS)))]
    found = sorted(job.read("keys").select(names).rows(), key=repr)
    assert repr(found) == repr(table([f.select(names) for f in job.put_out], ["k"]))
    assert len(found) == 3


@pytest.mark.parametrize("columns", ["k: k", "s: s", "x: x", "a: at, b: v > 2", "k: k, s: s, x: x"])
def test_a_running_top_is_read_as_it_was_emitted(tmp_path: Path, columns: str) -> None:
    names = [column.split(":")[0] for column in columns.split(", ")]
    first = f"with: {{{columns}}}, " if "b" in names else ""
    step = f"from: rows, {first}key: [{', '.join(names)}], top: {{n: 2, by: v desc}}"
    job = Stopped(tmp_path, step)
    found = job.read("keys").select(*names, "v", "rank")
    put_out = [frame.select(*names, "v", "rank", DELETE) for frame in job.put_out]
    assert repr(sorted(found.rows(), key=repr)) == repr(table(put_out, [*names, "rank"]))


KEYS = (
    *("k", "s", "x", "at", "cast(x as float)", "v > 2", "to_date(at)", "binary(s)"),
    *("cast(at as timestamp_ntz)", "cast(at as time)"),
    *("at - timestamp '2024-01-01 00:00:00'", "cast(v as interval month)"),
    *(
        "cast(v as decimal(20,3))",
        "concat(s, 'ä:1-')",
        "cast(null as string)",
        "cast(v as tinyint)",
    ),
)


def test_keys_of_tables_have_their_types_again(tmp_path: Path) -> None:
    columns = ", ".join(f'c{number}: "{text}"' for number, text in enumerate(KEYS))
    step = f"from: rows, key: {{{columns}}}, "
    running = Stopped(tmp_path, f"{step}aggregate: {{n: count(*)}}").read("keys")
    windows = Stopped(tmp_path / "w", f"{step}window: {{global: true}}, aggregate: {{n: count(*)}}")
    found = windows.read("windows")
    assert running.schema == found.schema
    assert sorted(map(repr, running.rows())) == sorted(map(repr, found.rows()))
    assert running.height == 6


@given(st.lists(st.tuples(*[st.none() | st.text(max_size=12)] * 2), min_size=1, max_size=9))
def test_texts_in_keys_are_what_they_were(keys: list[tuple[str | None, str | None]]) -> None:
    frame = pl.DataFrame(keys, {"a": pl.String, "b": pl.String}, orient="row")
    types = Schema((Field("a", STRING), Field("b", STRING)))
    assert pl.DataFrame(decode_keys(encode_keys(frame), types)).rows() == keys


def test_only_the_rows_of_a_key_are_found(tmp_path: Path) -> None:
    step = "from: rows, key: [k, s], window: {tumble: 10s}, aggregate: {n: count(*)}"
    job = Stopped(tmp_path, step, parallelism=2)
    assert said(job.read("windows", key="k=2,s=b")) == ["2 b 0 10 2"]
    assert said(job.read("windows", key="s=null, k=1")) == ["1 - 0 10 1"]
    assert said(job.read("windows", key="s='null',k=1")) == []


@pytest.mark.parametrize("step", [KNOWN[name][0] for name in ("slide", "running", "top", "dedup")])
def test_savepoints_and_other_backends_have_the_same_rows(tmp_path: Path, step: str) -> None:
    folders = iter(range(100))

    def backend() -> RocksBackend:
        return RocksBackend(str(tmp_path / f"live-{next(folders)}"), 1)

    whole = Stopped(tmp_path, step, on_disk=True)
    small = Stopped(tmp_path / "small", step, backend=backend, on_disk=True)
    state = "windows" if "window" in step else "keys"
    rows = sorted(said(whole.read(state)))
    assert rows
    assert sorted(said(small.read(state))) == rows
    saved = take_savepoint(whole.home, "0", None, str(tmp_path / "saved"))
    assert sorted(said(read(open_savepoint(saved), state))) == rows


def test_state_is_in_several_frames(tmp_path: Path) -> None:
    with Stopped(tmp_path, KNOWN["tumble"][0]).kept() as kept:
        (frozen,) = kept.thaw_step("step")
        assert len(frozen.read_runs("windows", frozen.groups)) > 1


def test_a_state_without_rows_has_the_same_columns(tmp_path: Path) -> None:
    for number, (step, columns, _) in enumerate(KNOWN.values()):
        folder = tmp_path / str(number)
        job, state = Stopped(folder, step), columns.partition(":")[0]
        with job.kept() as kept:
            step_state = StepStateReader.from_document(
                "step", kept.document, kept.thaw_step("step")
            )
            none = StepStateReader.from_document("step", kept.document, ())
            assert step_state.schema is not None
            assert list(none.read_rows(state)) == []
        found = read_nothing(step_state, state)
        assert found.schema == job.read(state).schema


def read_nothing(step: StepStateReader, state: str) -> pl.DataFrame:
    from headrace.core.state_reader.keyed_states import KeyedStateReader

    assert isinstance(step.schema, StateSchema)
    return next(KeyedStateReader(step.schema).read(state, [], 0))
