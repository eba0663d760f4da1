"""The errors for invalid classes and clauses, before anything runs."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from headrace import Process, Trial
from headrace.connectors.memory import InMemoryData
from headrace.core.api.user_code import UserCodeError
from headrace.core.pipeline.loader import load_pipeline
from headrace.core.plan.plan_assembly import build_plan

WRONG = Path(__file__).parent / "wrong_process_classes.txt"


def said(folder: Path, step: str, source: str = "", sinks: str = "") -> list[str]:
    """Return the problems of a pipeline of one step, with their hints."""
    shutil.copy(WRONG, folder / "wrong.py")
    file = folder / "p.yaml"
    file.write_text(
        "name: p\n"
        f"sources:\n  a: {{memory: {{data: in}}, schema: {{k: int, at: timestamp}}{source}}}\n"
        f"  b: {{memory: {{data: in}}, schema: {{k: bigint, at: timestamp}}, event_time: at}}\n"
        f"steps:\n  s: {{{step}}}\n"
        "sinks:\n  o: {from: s, memory: {data: o}}\n  b_out: {from: b, memory: {data: b}}\n"
        f"  a_out: {{from: a, memory: {{data: a}}}}\n{sinks}"
    )
    _, problems = build_plan(
        load_pipeline(file, {"memory": InMemoryData({}).build_connector()}, env={})
    )
    errors = [each for each in problems if each.severity == "error"]
    return [f"{each.subject}: {each.message} | {each.hint}" for each in errors]


TIMED = ", event_time: at"


def of(kind: str, *more: str) -> str:
    clauses = ", ".join([f"python: wrong.py:{kind}", "returns: {k: int}", *more])
    return f"from: a, key: k, process: {{{clauses}}}"


def ruled(kind: str, *more: str) -> str:
    return f"{of(kind)}, broadcast: {{{', '.join(['rules: b', *more])}}}"


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        ("Fnie", 'process.python: "wrong.py" has no class "Fnie" | did you mean "Fine"?'),
        ("a_function", 'process.python: wanted a class, but "a_function" is a function | it has'),
        ("not_a_class", 'wanted a class, but "not_a_class" is a constant'),
        ("NoMethod", 'class "NoMethod" has no on_row or on_rows | did you mean "on_row"?'),
        ("Both", 'class "Both" has on_row and on_rows | one of them sees all rows'),
        ("Few", "on_row takes 1 arguments besides self | as in def on_row(self, row, state, out)"),
        ("Waiting", 'class "Waiting": on_row is async | operators never wait'),
        ("Yielding", 'class "Yielding": on_row yields | rows are emitted with out(...)'),
        ("Timers", 'class "Timers" has the timer "alarm" and no on_timer | as in def on_timer'),
    ],
)
def test_a_class_that_is_wrong(tmp_path: Path, kind: str, message: str) -> None:
    assert any(message in each for each in said(tmp_path, of(kind), TIMED))


def test_each_state_that_is_wrong_is_reported_with_its_line(tmp_path: Path) -> None:
    found = [each.split(": state ")[1] for each in said(tmp_path, of("Misspelt"), TIMED)]
    assert found == [
        '"a": unknown type "bigin" (did you mean "bigint"?) | ',
        '"b": ttl: wanted a duration such as "10s", got 10 | ',
        '"c": the key of a map is a single value, and not array<int> | ',
        '"d": time: wanted "event" or "processing", got \'wall\' | ',
        "\"e\": value() got an unexpected keyword argument 'tll' | ",
        '"f": value(int) is computed | write it with literals, as in value("bigint", ttl="1h")',
        "\"g\": value('int', ttl=SECONDS) is computed | "
        'write it with literals, as in value("bigint", ttl="1h")',
        '"h": time applies only together with ttl | ',
        '"_i": a state cannot have this name | '
        "held, held_right, due, waits and names that begin with _ are reserved",
        '"held": a state cannot have this name | '
        "held, held_right, due, waits and names that begin with _ are reserved",
        "\"i\": default: 'none' (str) is no int | ",
        '"key": a state cannot have this name | self.key has another meaning',
        '"now": a state cannot have this name | self.now has another meaning',
    ]


@pytest.mark.parametrize(
    ("step", "source", "message"),
    [
        (
            "from: a, process: {python: wrong.py:Fine, returns: {k: int}}",
            TIMED,
            '"process" needs "key" | state and timers belong to a key: key: card',
        ),
        (
            of("Fine"),
            "",
            "process goes by event time, but its input has none | "
            "set event_time in the source, or order: arrival",
        ),
        (
            of("Clocks", "order: arrival"),
            "",
            'ttl of "lately" goes by event time, but its input has none | '
            'set event_time in the source, or time="processing"',
        ),
        (
            f"{of('Fine')}, window: {{tumble: 1m}}",
            TIMED,
            '"window" does not go with "process" | timers take the place of windows',
        ),
        (
            f"{of('Many')}, on_error: skip",
            TIMED,
            'class "Many" has on_rows, which fails with all of its rows | '
            "on_error: skip and to are for on_row",
        ),
        (
            of("Fine", "order: arrival", "late_to: late"),
            TIMED,
            "process.late_to: rows are never late with order: arrival",
        ),
        (
            f"{of('Fine')}, route: {{x: k > 1}}",
            TIMED,
            '"route" does not go with "process" | put it into a step of its own',
        ),
        (
            "connect: {left: a, right: b}, key: k",
            TIMED,
            '"connect" needs "process"',
        ),
        (
            "connect: {left: a, right: b}, key: k, where: k > 1,"
            " process: {python: wrong.py:Fine, returns: {k: int}}",
            TIMED,
            '"where" does not go with "connect" | put it into an earlier step, one for each',
        ),
        (
            "connect: {left: a, right: b}, key: k,"
            " process: {python: wrong.py:Fine, returns: {k: int}}",
            TIMED,
            'class "Fine" has no on_right | as in def on_right(self, row, state, out): ...',
        ),
        (
            ruled("Fine"),
            TIMED,
            'class "Fine" has no on_rule | as in def on_rule(self, rule, state): ...',
        ),
        (
            ruled("Many"),
            TIMED,
            'class "Many" has no on_row | on_rows is for one input and no broadcast: as in',
        ),
        (
            ruled("SharesNothing"),
            TIMED,
            'class "SharesNothing" has no shared state that on_rule could write | as in limits',
        ),
        (
            ruled("RulesOut"),
            TIMED,
            "on_rule takes 3 arguments besides self | as in def on_rule(self, rule, state): ...",
        ),
        (
            ruled("RulesYield"),
            TIMED,
            'class "RulesYield": on_rule yields | on_rule emits no rows: on_row applies',
        ),
        (
            ruled("Sharing").replace("from: a", "connect: {left: a, right: b}"),
            TIMED,
            '"broadcast" does not go with "connect" | a class has two inputs, or one',
        ),
        (
            ruled("SharesWrong"),
            TIMED,
            'state "alarm": a timer belongs to a key, and cannot be shared',
        ),
        (
            ruled("SharesWrong"),
            TIMED,
            """state "most": shared('int') declares no shared state | as in shared(value(""",
        ),
        (ruled("SharesWrong"), TIMED, 'state "least": unknown type "nit" (did you mean "int"?)'),
        (
            of("Sharing"),
            TIMED,
            'state "most" is shared, but the step has no broadcast | broadcast: {rules: ...}',
        ),
        (of("SharesNothing"), TIMED, "has on_rule, but the step has no broadcast | broadcast: {"),
        (
            ruled("Sharing", "on: a.k = b.k"),
            TIMED,
            'broadcast: "on" does not go with "process" | on_rule receives every rule',
        ),
        (
            ruled("Sharing", "keep: {ttl: 1s}"),
            TIMED,
            'broadcast: "keep" does not go with "process" | on_rule decides what is stored',
        ),
        (
            ruled("Sharing", "late_to: late"),
            TIMED,
            'broadcast: "late_to" does not go with "process" | it belongs to process: {late_to:',
        ),
        (
            f"{ruled('Sharing')}, where: k > 1",
            TIMED,
            '"where" does not go with "broadcast" | put it into an earlier step, one for each',
        ),
        (
            "from: a, broadcast: {rules: b}",
            TIMED,
            'broadcast needs "on", or "process" in the same step | on: rules.country = country',
        ),
        (
            ruled("Sharing"),
            "",
            'process goes by event time, but "a" has none | set event_time in the source',
        ),
        (
            ruled("Sharing").replace("from: a", "from: b").replace("rules: b", "rules: a"),
            "",
            'process goes by event time, but "a" has none | set event_time in the source',
        ),
        (
            "from: b, key: k, broadcast: {rules: a}, process: {python: wrong.py:SharesFading,"
            " returns: {k: int}, order: arrival}",
            "",
            'ttl of "lately" goes by event time, but "a" has none | '
            'set event_time in the source, or time="processing"',
        ),
        (
            "connect: {left: a, right: b}, key: k,"
            " process: {python: wrong.py:Fine, returns: {k: int}}",
            TIMED,
            'key "k" is int in "a", but bigint in "b" | cast one of them in an earlier step',
        ),
        (
            "from: a, key: k, late_to: late, process: {python: wrong.py:Fine, returns: {k: int}}",
            TIMED,
            '"late_to" needs "over" | other clauses have it inside: window, dedup, process, match,',
        ),
        (
            "connect: {left: a, right: c}, key: k,"
            " process: {python: wrong.py:Fine, returns: {k: int}}}\n"
            "  c: {from: b, select: {kk: k, at: at}",
            TIMED,
            'step "s": input "c": unknown column "k" | did you mean "kk"?',
        ),
    ],
)
def test_clauses_that_do_not_go_together(
    tmp_path: Path, step: str, source: str, message: str
) -> None:
    found = said(tmp_path, step, source)
    assert any(message in each for each in found), found


def test_an_output_that_there_is_not_is_reported_with_those_that_there_are(tmp_path: Path) -> None:
    step, sink = of("Fine", "outputs: {audit: {k: int}}"), "  c: {from: s.%s, memory: {data: c}}\n"
    misspelt = said(tmp_path, step, TIMED, sink % "audt")
    assert misspelt == ['sink "c": "s" has no output "audt" | did you mean "s.audit"?']
    assert said(tmp_path, step, TIMED, sink % "x")[0].endswith("| it has s.audit")


def test_a_shared_state_that_is_wrong_is_not_missed_as_well(tmp_path: Path) -> None:
    found = said(tmp_path, ruled("SharesWrong"), TIMED)
    assert len(found) == 3, found


def test_a_method_that_is_async_is_not_missed_as_well(tmp_path: Path) -> None:
    (found,) = said(tmp_path, ruled("RulesWait"), TIMED)
    assert 'class "RulesWait": on_rule is async' in found


def test_a_class_that_cannot_start_is_reported() -> None:
    class Broken(Process):
        def __init__(self) -> None:
            raise OSError("no model")

        def on_row(self, row: object, state: object, out: object) -> None: ...

    with pytest.raises(UserCodeError, match=r"OSError: no model \(making a Broken\)"):
        Trial(Broken, key="k", rows={"k": "int"}, returns={"k": "int"})
