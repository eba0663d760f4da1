"""Random joins and broadcasts of two inputs, drawn by Hypothesis."""

from __future__ import annotations

from hypothesis import strategies as st

from headrace.core.types.change_columns import CHANGE
from tests.support.reference.random_pipelines import SCHEMA, SPREAD_S

WITHIN = st.sampled_from(
    [
        *(
            "within: [-2s, 1s]",
            "within: 1500ms",
            "within: [0s, 3s]",
            "within: [-3s, -1s]",
            "within: 0s",
        ),
        *(
            "within: [1s, 4s]",
            "ttl: 3s",
            "type: inner",
        ),
    ]
)
AS_OF = st.sampled_from(["as_of: true", "as_of: true, ttl: 2s"])
WINDOWS = st.sampled_from(
    [
        *("tumble: 5s", "slide: 6s, every: 2s", "slide: 2s, every: 5s", "cumulate: 6s, every: 2s"),
        *(
            "session: 1s",
            "session: 250ms",
            "global: true",
            "tumble: 7s, offset: 2s",
        ),
    ]
)
EQUAL = st.sampled_from(
    [
        *("a.k = b.k", "a.k = b.k and a.s = b.s", "a.x = b.x", "a.v % 2 = b.v % 2 and a.k = b.k"),
        *(
            "a.k = b.k and a.v < b.v",
            "a.k = b.k and (a.s is null or b.x > 0)",
        ),
    ]
)
ANY = st.one_of(EQUAL, st.sampled_from(["a.v < b.v", "a.k = b.k or b.v > 2", "b.s is null"]))
TABLES = st.sampled_from(["table: {key: k, sequence: v}", "table: {key: k}", ""])
"""The table that a source is; none: the next step makes one of its rows."""
KEEP = st.sampled_from(
    [
        *("", ", keep: {key: k}", ", keep: {key: [k, s], ttl: 3s}", ", keep: {ttl: 2s}"),
        *(", keep: {key: {odd: v % 2}}",),
    ]
)
KINDS = ("within", "within", "as_of", "window", "window", "changes", "broadcast")
TYPES = ("inner", "left", "right", "full", "semi", "anti")
BOTH = "select: {k: a.k, v: a.v, w: b.v, s: b.s, at: a.at, later: b.at}"
ALONE = "select: {k: k, v: v, at: at}"
CHANGES = """\
  mine: {from: a, key: k, aggregate: {n: count(*), most: max(v)}}
  theirs: {from: b, key: k, aggregate: {n: count(*), least: min(v)}, having: n > 1}
"""


TWICE = """\
  pair: {from: b, with: {both: 'array(1, 1)'}}
  twice: {from: pair, explode: {one: both}}
"""


@st.composite
def steps(draw: st.DrawFn) -> str:
    """Draw the steps after the sources `a` and `b`; the last is called `step`."""
    type = draw(st.sampled_from(TYPES))
    alone = type in ("semi", "anti")
    columns = ALONE if alone else BOTH
    match draw(st.sampled_from(KINDS)):
        case "within":
            join = f"on: '{draw(EQUAL)}', type: {type}, {draw(WITHIN)}"
            join = join.replace(f", type: {type}, type: inner", f", type: {type}")
            clauses = f"join: {{left: a, right: b, {join}}}, {columns}"
        case "window":
            join = f"left: a, right: b, on: '{draw(EQUAL)}', type: {type}"
            clauses = f"join: {{{join}}}, window: {{{draw(WINDOWS)}}}, {columns}"
        case "as_of":
            join = f"on: '{draw(EQUAL)}', type: {draw(st.sampled_from(['inner', 'left']))}"
            clauses = f"join: {{left: a, right: b, {join}, {draw(AS_OF)}}}, {BOTH}"
        case "changes":
            both = "select: {k: mine.k, j: theirs.k, n: mine.n, m: theirs.n, least: least}"
            join = f"left: mine, right: theirs, on: mine.k = theirs.k, type: {type}"
            # In a full join, rows of both sides with null keys could not be distinguished.
            before = CHANGES.replace("{from: b,", "{from: b, where: k is not null,")
            before = before if type == "full" else CHANGES
            return f"{before}  step: {{join: {{{join}}}{'' if alone else ', ' + both}}}\n"
        case _:
            type = draw(st.sampled_from(["inner", "left", "semi", "anti"]))
            columns = ALONE if type in ("semi", "anti") else BOTH
            rules = draw(st.sampled_from(["b", "{from: twice, as: b}"]))
            join = f"rules: {rules}, on: '{draw(ANY)}', type: {type}{draw(KEEP)}"
            clauses = f"from: a, broadcast: {{{join}}}, {columns}"
    before = TWICE if "twice" in clauses else ""
    if draw(st.booleans()):
        return f"{before}  step: {{{clauses}}}\n"
    window = draw(st.sampled_from(["tumble: 4s", "session: 1s", "slide: 6s, every: 3s"]))
    counted = f"key: k, window: {{{window}}}, aggregate: {{n: count(*), f: first(v), l: last(v)}}"
    return f"{before}  met: {{{clauses}}}\n  step: {{from: met, {counted}}}\n"


@st.composite
def pipelines(draw: st.DrawFn) -> str:
    """Return the text of a pipeline from `left` and `right` to `out`, all in memory."""
    if not draw(st.integers(0, 7)):
        return draw(st.one_of(version_pipelines(), expiring_pipelines()))
    source = f"schema: {SCHEMA}, event_time: at, watermark: {{delay: {SPREAD_S}s}}"
    text = f"steps:\n{draw(steps())}sinks:\n  out: {{from: step, memory: {{data: out}}}}\n"
    left = f"sources:\n  a: {{memory: {{data: left}}, {source}}}\n"
    if draw(st.integers(0, 4)):
        return f"{left}  b: {{memory: {{data: right}}, {source}}}\n{text}"
    return left + itself(text)


@st.composite
def version_pipelines(draw: st.DrawFn) -> str:
    """Return the text of a pipeline that joins rows with the versions of those of a table."""
    source, table = f"event_time: at, watermark: {{delay: {SPREAD_S}s}}", draw(TABLES)
    of_changes = f"{SCHEMA[:-1]}, {CHANGE}: string}}, on_error: skip, {table}" if table else SCHEMA
    right, before = "b", ""
    if draw(st.booleans()) or not table:
        right = "{from: some, as: b}"
        clauses = "where: v > 0, with: {x: v + x}" if table else "dedup: {key: k, keep: last}"
        before = f"  some: {{from: b, {clauses}}}\n"
    type = draw(st.sampled_from(["inner", "left"]))
    on = draw(st.sampled_from(["a.k = b.k", "a.k = b.k and a.v < b.v"]))
    join = f"left: a, right: {right}, on: '{on}', type: {type}, {draw(AS_OF)}"
    return (
        f"sources:\n  a: {{memory: {{data: left}}, schema: {SCHEMA}, {source}}}\n"
        f"  b: {{memory: {{data: right}}, schema: {of_changes}, {source}}}\n"
        f"steps:\n{before}  step: {{join: {{{join}}}, {BOTH}}}\n"
        "sinks:\n  out: {from: step, memory: {data: out}}\n"
    )


@st.composite
def expiring_pipelines(draw: st.DrawFn) -> str:
    """Return the text of a pipeline that joins rows of tables, near each other in time."""
    source = f"event_time: at, watermark: {{delay: {SPREAD_S + 1}s}}"  # no change is late
    type = draw(st.sampled_from(TYPES))
    texts, steps = "", ""
    for name, data in (("a", "left"), ("b", "right")):
        table = draw(TABLES)
        changes = f"{SCHEMA[:-1]}, {CHANGE}: string}}, on_error: skip, {table}" if table else SCHEMA
        texts += f"  {name}: {{memory: {{data: {data}}}, schema: {changes}, {source}}}\n"
        dedup = ", dedup: {key: [k, s], keep: last, order: event_time}"
        clauses = "" if table or (name == "b" and "dedup" not in steps) else dedup
        steps += f"  some_{name}: {{from: {name}, where: v is not null{clauses}}}\n"
    on = draw(st.sampled_from(["a.v = b.v", "a.v = b.k", "a.x = b.x and a.v < b.v"]))
    ttl = draw(st.sampled_from(["1s", "5s"]))
    join = f"left: {{from: some_a, as: a}}, right: {{from: some_b, as: b}}, on: '{on}'"
    columns = ALONE if type in ("semi", "anti") else BOTH
    return (
        f"sources:\n{texts}steps:\n{steps}"
        f"  joined: {{join: {{{join}, type: {type}, ttl: {ttl}}}, {columns}}}\n"
        "  step: {from: joined, key: k, aggregate: {n: count(*), total: sum(v), last: max(at)}}\n"
        "sinks:\n  out: {from: step, memory: {data: out}}\n"
    )


def itself(text: str) -> str:
    """Return the steps with `a` joined to itself."""
    for key in ("right", "rules"):
        text = text.replace(f"{key}: b", f"{key}: {{from: a, as: b}}")
    return text.replace("{from: b,", "{from: a,")
