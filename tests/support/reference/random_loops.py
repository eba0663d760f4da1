"""Random loops: what enters them, the steps inside, when rows leave, and what follows.

Every row leaves after a few rounds, at the latest by `max_rounds`.
"""

from __future__ import annotations

from hypothesis import strategies as st

from tests.support.reference.random_pipelines import SCHEMA, SPREAD_S

COLUMNS = "k: k, s: s, v: v, at: at"
UNTIL = st.sampled_from(
    [
        *("v > 3", "rounds = 2", "v % 3 = 0", "rounds >= length(s)", "k = 1 or rounds > 1"),
        "v is null and rounds = 1",
    ]
)
ROW_STEPS = st.sampled_from(
    [
        "select: {k: k, s: s, v: v + 1, at: at, rounds: rounds}",
        "with: {k: k + v}",
        "where: v > -3 or v is null",
        "where: not (k = 2 and rounds = 1)",
        "extend: {s: s || '!'}",
        "explode: {copy: 'if(v = 2, array(0, 1), array(0))'}\n    drop: [copy]",
        "dedup: {key: [k, s, v, at, rounds], order: arrival}",
    ]
)
JOIN = """\
  INNER:
    join: {left: {from: INPUT, as: one}, right: {from: b, as: other}, on: one.k = other.k}
    select: {k: other.v, s: one.s, v: one.v, at: one.at, rounds: rounds}
"""
AFTER = st.sampled_from(
    [
        "from: tries\n    where: k is null or k is not null",
        "from: [tries, tries.over]\n    where: k is null or k is not null",
        "from: tries\n    key: k\n    window: {tumble: 5s}\n"
        "    aggregate: {n: count(*), total: sum(v), most: max(rounds)}",
        "from: [tries, tries.over]\n    key: rounds\n    aggregate: {n: count(*), least: min(v)}",
    ]
)


@st.composite
def loops(draw: st.DrawFn, *, joins: bool = False) -> str:
    """Draw the text of a pipeline with a loop over `rows`, or over `a` that is joined with `b`."""
    source = "a" if joins else "rows"
    count = draw(st.integers(1, 3))
    names = [*(f"inner{at}" for at in range(1, count)), "once"]
    joined = draw(st.sampled_from(names)) if joins else ""
    steps, read = "", "tries.loop"
    for name in names:
        if name == joined:
            steps += JOIN.replace("INNER", name).replace("INPUT", read)
        else:
            steps += f"  {name}:\n    from: {read}\n    {draw(ROW_STEPS)}\n"
        read = name
    feedback = "once"
    if draw(st.booleans()):
        steps += "  again:\n    from: once\n    route: {more: not (v = -1)}\n"
        feedback = "again.more"
    until, most = draw(UNTIL), draw(st.integers(1, 3))
    passes = draw(st.booleans())
    after = draw(AFTER)
    watermark = "pass" if passes and "window" not in after else "hold"
    return (
        f"{build_sources(joins=joins)}"
        f"steps:\n  entered: {{from: {source}, select: {{{COLUMNS}}}}}\n"
        f"  tries:\n    iterate:\n      from: entered\n      until: {until}\n      rounds: true\n"
        f"      max_rounds: {most}\n      feedback: {feedback}\n      watermark: {watermark}\n"
        f"{steps}  step:\n    {after}\n"
        f"  left_over: {{from: tries.over, where: k is null and k is not null}}\n"
        "sinks:\n  out: {from: step, memory: {data: out}}\n"
        "  none: {from: left_over, memory: {data: none}}\n"
    )


def build_sources(*, joins: bool) -> str:
    """Return the source `rows`, or `a` and `b`."""
    found = "sources:\n"
    for name, data in (("a", "left"), ("b", "right")) if joins else (("rows", "in"),):
        found += (
            f"  {name}:\n    memory: {{data: {data}}}\n    schema: {SCHEMA}\n"
            f"    event_time: at\n    watermark: {{delay: {SPREAD_S}s}}\n"
        )
    return found
