"""`headrace run`: rows on stdout, what is said of them on stderr, and the exit status."""

import json
import re
from pathlib import Path
from textwrap import dedent

import pytest

from tests.support.cli.command_line import Headrace

TEN = """\
name: ten
sources:
  numbers: {generate: {rows: 10, columns: {x: id, y: id * 2}}}
steps:
  some: {from: numbers, where: x > 6}
sinks:
  out: {from: some, stdout: {}, format: json}
"""

ROUTED = TEN.replace("where: x > 6", "route: {big: x > 6}").replace("from: some", "from: some.big")
"""One of its outputs has no reader, which gives a warning."""

ORDERS = """\
name: orders
sources:
  orders: {files: {path: "in/*.jsonl"}, schema: {x: bigint}}
sinks:
  out: {from: orders, files: {path: out}}
"""


@pytest.fixture(autouse=True)
def no_color(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")


def write(name: str, text: str) -> str:
    Path(name).parent.mkdir(parents=True, exist_ok=True)
    Path(name).write_text(dedent(text), "utf-8")
    return name


def events(err: str) -> list[dict[str, object]]:
    return [json.loads(line) for line in err.splitlines()]


def test_rows_go_to_stdout_and_a_summary_in_columns_to_stderr(headrace: Headrace) -> None:
    ran = headrace("run", write("p.yaml", TEN))
    assert ran.status == 0
    assert ran.out == '{"x":7,"y":14}\n{"x":8,"y":16}\n{"x":9,"y":18}\n'
    table = [line.rsplit(None, 1)[0] for line in ran.err.splitlines()[:-1]]
    assert table == [
        "         rows in  rows out  bad",
        "numbers       10        10    0",
        "some          10         3    0",
        "out            3         3    0",
    ]
    assert re.fullmatch(r"done in \d+\.\d s: 10 rows in, [\d,]+ rows/s", ran.err.splitlines()[-1])


def test_quiet_says_nothing_of_a_run_that_goes_well(headrace: Headrace) -> None:
    ran = headrace("run", write("p.yaml", TEN), "--quiet")
    assert (ran.status, ran.err) == (0, "")
    assert ran.out


def test_quiet_leaves_out_warnings_and_keeps_errors(headrace: Headrace) -> None:
    write("p.yaml", ROUTED)
    assert "nothing reads" in headrace("run", "p.yaml").err
    assert headrace("run", "p.yaml", "--quiet").err == ""
    ran = headrace("run", "p.yaml", "--quiet", "--set", "steps.some.route.big=z > 6")
    assert ran.status == 2
    assert 'unknown column "z"' in ran.err


def test_limit_is_the_number_of_rows_read_of_each_source(headrace: Headrace) -> None:
    ran = headrace("run", write("p.yaml", TEN), "--limit", "8")
    assert ran.out == '{"x":7,"y":14}\n'
    assert "8 rows in" in ran.err


def test_set_and_parallelism_act(headrace: Headrace) -> None:
    changed = ("--set", "steps.some.where=x < 4", "--parallelism", "3")
    ran = headrace("run", write("p.yaml", TEN), *changed)
    assert sorted(ran.out.splitlines()) == [f'{{"x":{x},"y":{2 * x}}}' for x in range(4)]


@pytest.mark.parametrize("buffer", ["{rows: 1}", "{timeout: 20ms}", "{rows: 2, timeout: 1h}"])
def test_the_buffer_changes_no_rows(headrace: Headrace, buffer: str) -> None:
    usual = headrace("run", write("p.yaml", TEN)).out
    ran = headrace("run", write("q.yaml", TEN + f"settings: {{buffer: {buffer}}}\n"), "--quiet")
    assert (ran.status, ran.out, ran.err) == (0, usual, "")


def test_json_tells_start_and_summary(headrace: Headrace) -> None:
    ran = headrace("run", write("p.yaml", TEN), "--log", "json")
    start, checkpoint, summary = events(ran.err)
    assert (start["event"], start["name"]) == ("start", "ten")
    assert (checkpoint["event"], checkpoint["number"]) == ("checkpoint", 1)
    assert (summary["event"], summary["status"]) == ("summary", "done")
    assert (summary["rows_in"], summary["rows_out"], summary["bad"]) == (10, 3, 0)
    parts = summary["parts"]
    assert isinstance(parts, dict)
    assert (parts["some"]["rows_in"], parts["some"]["rows_out"]) == (10, 3)
    assert parts["out"]["backpressure"] == "ok"


def test_json_tells_what_is_wrong_with_the_pipeline(headrace: Headrace) -> None:
    write("p.yaml", ROUTED.replace("x > 6", "z > 6"))
    ran = headrace("run", "p.yaml", "--log", "json")
    warning, error = events(ran.err)
    assert ran.status == 2
    assert (error["event"], error["line"], error["column"]) == ("error", 5, 38)
    assert error["message"] == 'unknown column "z"'
    assert warning["event"] == "warning"


def test_an_input_that_matches_nothing_is_refused_with_2(headrace: Headrace) -> None:
    ran = headrace("run", write("p.yaml", ORDERS))
    assert (ran.status, ran.out) == (2, "")
    assert ran.err.startswith("p.yaml: orders: ")
    assert "in/*.jsonl" in ran.err
    fresh = headrace("run", "p.yaml", "--fresh")  # looks before it forgets anything
    assert (fresh.status, fresh.err) == (2, ran.err)
    assert not Path("out").exists()


def test_an_output_folder_that_is_not_empty_is_refused_with_3(headrace: Headrace) -> None:
    write("in/a.jsonl", '{"x": 1}\n')
    write("p.yaml", ORDERS)
    assert headrace("run", "p.yaml").status == 0
    before = sorted(Path("out").iterdir())
    ran = headrace("run", "p.yaml")
    assert ran.status == 3
    assert "mode: overwrite" in ran.err
    failure = events(headrace("run", "p.yaml", "--log", "json").err)[-1]
    assert (failure["event"], failure["exit_status"]) == ("failure", 3)
    assert sorted(Path("out").iterdir()) == before


AT_ONCE = "settings: {restart: {first: 1ms, factor: 1, jitter: 0}}\n"
ONCE = "settings: {restart: {strategy: none}}\n"


def test_a_bad_record_is_reported_with_its_position_at_each_restart(
    headrace: Headrace,
) -> None:
    write("in/a.jsonl", '{"x": 1}\n{"x": "one"}\n')
    ran = headrace("run", write("p.yaml", ORDERS + AT_ONCE))
    assert ran.status == 1
    told, hint, again, twice, *last = ran.err.splitlines()
    assert re.match(r"p\.yaml: orders.*: .*in/a\.jsonl at 9: bad record", told)
    assert "on_error: skip" in hint
    assert again == "restarting in 0.0 s"
    assert twice == "the same failure again: restarting in 0.0 s"
    assert last == ["the same failure again: giving up"]
    assert not list(Path("out").glob("*"))


def test_a_bad_record_is_reported_once_without_restarts(headrace: Headrace) -> None:
    write("in/a.jsonl", '{"x": 1}\n{"x": "one"}\n')
    ran = headrace("run", write("p.yaml", ORDERS + ONCE))
    assert ran.status == 1
    assert ran.err.count("bad record") == 1
    assert len(ran.err.splitlines()) == 2


def test_a_mended_record_is_read_from_where_the_job_failed(headrace: Headrace) -> None:
    write("in/a.jsonl", '{"x": 1}\n{"x": "one"}\n')
    write("p.yaml", ORDERS + ONCE)
    assert headrace("run", "p.yaml").status == 1
    write("in/a.jsonl", '{"x": 1}\n{"x": 10000}\n')
    assert headrace("run", "p.yaml").status == 0
    (part,) = Path("out").glob("*")
    assert part.read_text() == '{"x":1}\n{"x":10000}\n'


def test_fresh_and_from_checkpoint_are_refused_together(headrace: Headrace) -> None:
    write("in/a.jsonl", '{"x": 1}\n{"x": "one"}\n')
    assert headrace("run", write("p.yaml", ORDERS + ONCE)).status == 1
    kept = sorted(Path(".headrace").rglob("*"))
    ran = headrace("run", "p.yaml", "--fresh", "--from-checkpoint", "1")
    assert (ran.status, ran.err.count("--fresh removes")) == (2, 1)
    assert sorted(Path(".headrace").rglob("*")) == kept


INTRUDED = TEN.replace("where: x > 6", "map: {python: f.py:f, returns: {x: bigint, y: bigint}}")
INTRUDED = INTRUDED.replace("stdout: {}", "files: {path: out}")


def test_what_was_left_to_commit_at_the_end_is_committed_and_that_is_all(
    headrace: Headrace,
) -> None:
    write("f.py", "def f(rows):\n    open('out/part-intruder', 'w').close()\n    return rows\n")
    assert headrace("run", write("p.yaml", INTRUDED + ONCE)).status == 1
    Path("out/part-intruder").unlink()
    ran = headrace("run", "p.yaml", "--reset-state", "numbers")
    assert (ran.status, len(ran.err.splitlines())) == (0, 1)
    assert "the job had finished" in ran.err
    (part,) = Path("out").iterdir()
    assert part.read_text().count("\n") == 10


FAILS_LATE = """\
name: late
settings: {state: {memory: 1KB}, restart: {strategy: none}}
sources:
  numbers: {generate: {rows: 100000, columns: {x: id}}}
steps:
  once: {from: numbers, dedup: {key: [x], keep: first}}
  some: {from: once, map: {python: f.py:f, returns: {x: bigint}}}
sinks:
  out: {from: some, files: {path: out}}
"""


def test_what_failed_leaves_no_state_on_disk(headrace: Headrace) -> None:
    code = "def f(rows):\n    assert rows['x'].max() < 70000\n    return rows\n"
    write("f.py", code)
    assert headrace("run", write("p.yaml", FAILS_LATE)).status == 1
    assert not list(Path(".headrace/late/state").rglob("*"))


def test_json_tells_of_each_attempt(headrace: Headrace) -> None:
    write("in/a.jsonl", '{"x": 1}\n{"x": "one"}\n')
    ran = headrace("run", write("p.yaml", ORDERS + AT_ONCE), "--log", "json")
    told = [event["event"] for event in events(ran.err)]
    assert told == ["start", "restarting", "restarting", "failure", "summary"]


def test_skipped_records_are_rows_in_that_are_bad(headrace: Headrace) -> None:
    write("in/a.jsonl", '{"x": 1}\n{"x": "one"}\n')
    ran = headrace("run", write("p.yaml", ORDERS), "--set", "sources.orders.on_error=skip")
    assert ran.status == 0
    orders = next(line for line in ran.err.splitlines() if line.startswith("orders"))
    assert orders.split()[1:4] == ["2", "1", "1"]


IN_ORDER = """\
name: p
sources:
  numbers: {files: {path: in}, schema: {x: bigint}, on_error: {to: bad}}
steps:
  halves:
    from: numbers
    map: {python: f.py:f, returns: {x: bigint}, mode: row}
    on_error: {to: odd}
  ends: {from: bad, aggregate: {n: count(*), first: first(raw), last: last(raw)}}
  odds: {from: odd, aggregate: {n: count(*), first: first(raw), last: last(raw)}}
sinks:
  out: {from: halves, files: {path: out}}
  bad_ends: {from: ends, stdout: {}}
  odd_ends: {from: odds, files: {path: odd}}
"""


def test_rows_that_failed_have_an_order(headrace: Headrace) -> None:
    write("in/a.jsonl", '{"x": 1}\nb\n{"x": 2}\nc\n{"x": 3}\n')
    write("f.py", "def f(row):\n    return {'x': row['x'] // (row['x'] - 2) * 0 + row['x'] // 2}\n")
    ran = headrace("run", write("p.yaml", IN_ORDER))
    assert ran.status == 0, ran.err
    assert json.loads(ran.out) == {"n": 2, "first": "b", "last": "c"}
    (part,) = Path("odd").glob("*.jsonl")
    assert json.loads(part.read_text())["first"] == '{"x":2}'


MAPPED = TEN.replace("where: x > 6", "map: {python: f.py:f, returns: {x: bigint}, mode: row}")


def test_a_failing_function_is_reported_with_file_line_and_row(headrace: Headrace) -> None:
    write("f.py", "def f(row):\n    return {'x': 1 // (row['x'] - 5)}\n")
    ran = headrace("run", write("p.yaml", MAPPED + ONCE))
    assert (ran.status, ran.out) == (1, "")
    assert ran.err.startswith("p.yaml: ")
    assert "f.py:2: ZeroDivisionError" in ran.err
    assert "'x': 5" in ran.err
    assert "Traceback" not in ran.err
    assert ran.err.count("ZeroDivisionError") == 1


def test_a_file_of_functions_that_cannot_be_loaded_is_refused_with_2(headrace: Headrace) -> None:
    write("f.py", "import no_such_module\ndef f(row):\n    return row\n")
    ran = headrace("run", write("p.yaml", MAPPED))
    assert (ran.status, ran.out) == (2, "")
    assert "f.py:1: ModuleNotFoundError" in ran.err
