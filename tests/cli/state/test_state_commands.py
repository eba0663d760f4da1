"""`headrace state`: what is kept of a job that was stopped, listed, shown, asked and compared."""

from __future__ import annotations

import json
from pathlib import Path
from shutil import copytree
from typing import Any

import polars as pl
import pytest

from headrace.cli.state.values import to_plain_rows
from headrace.connectors.registry import REGISTRY
from headrace.core.types.data_types import TIMESTAMP, to_polars
from headrace.state.savepoints.savepoint import open_savepoint
from headrace.state.storage.home import Home
from headrace.state.storage.local_disk import LocalDisk
from tests.support.cli.command_line import Headrace, Ran
from tests.support.runtime.changed_pipelines import document
from tests.support.runtime.memory_pipelines import plan_of
from tests.support.stopped_jobs import ROWS, Row, Stopped

WINDOWS = (
    "from: rows, key: {shop: s, odd: k % 2}, window: {tumble: 10s},"
    " aggregate: {n: count(*), mean: avg(x), at: max(at), d: 'sum(cast(v as decimal(5,2)))'}"
)
LATER: list[Row] = [(1, "a", 5, 2.5, 8), (4, "d", 6, 1.0, 9)]
BOUNDS = ("2026-01-31T08:00:00Z", "2026-01-31T08:00:10Z")


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The home of a job with windows, made once."""
    folder = tmp_path_factory.mktemp("shared")
    return Path(Stopped(folder, WINDOWS, on_disk=True).root)


@pytest.fixture
def job(headrace: Headrace, shared: Path) -> str:
    """Its newest checkpoint, in the home of the working directory."""
    copytree(shared, ".headrace")
    home = Home(LocalDisk(), ".headrace", "test").open_read_only()
    assert home is not None
    return f"test@{home.list_checkpoints()[-1]}"


def answer(ran: Ran) -> Any:
    """Return a command's output for programs."""
    assert (ran.status, ran.err) == (0, "")
    return json.loads(ran.out)


def test_show_as_people_read_it(headrace: Headrace, job: str) -> None:
    ran = headrace("state", "show", "test", "step", "--limit", "4")
    assert (ran.status, ran.err) == (0, "")
    head, *table = ran.out.splitlines()
    assert head == "step windows: the first 4 rows (--limit shows more)"
    assert [line.split() for line in table] == [
        ["shop", "odd", "window_start", "window_end", "n", "mean", "at", "d"],
        ["null", "1", *BOUNDS, "1", "NaN", "2026-01-31T08:00:04Z", "1.00"],
        ["a", "null", *BOUNDS, "1", "null", "2026-01-31T08:00:03Z", "4.00"],
        ["a", "1", *BOUNDS, "1", "0.5", "2026-01-31T08:00:00Z", "1.00"],
        ["b", "0", *BOUNDS, "2", "-0.5", "2026-01-31T08:00:07Z", "9.00"],
    ]
    assert {len(line) for line in table} == {len(table[0])}, "numbers stand to the right"


def test_show_of_a_key_for_programs(headrace: Headrace, job: str) -> None:
    said = answer(headrace("state", "show", job, "step", "--key", "odd=0,shop=b", "--json"))
    times = dict(zip(("window_start", "window_end"), BOUNDS, strict=True))
    row = {"n": 2, "mean": -0.5, "at": "2026-01-31T08:00:07Z", "d": "9.00"}
    assert said["title"] == f"checkpoint {job.removeprefix('test@')} of test"
    assert said["states"] == {
        "windows": {"rows": [{"shop": "b", "odd": 0, **times, **row}], "more": False}
    }


def test_a_pipelines_file_stands_for_its_job(headrace: Headrace, job: str) -> None:
    Path("p.yaml").write_text("name: test\nsources: {}\n")
    ran = headrace("state", "show", "p.yaml", "step", "--limit", "1")
    assert ran.out.startswith("step windows: the first row (--limit shows more)\n")


def test_show_raw(headrace: Headrace, job: str) -> None:
    said = answer(headrace("state", "show", "test", "step", "--raw", "--json"))
    columns = [*said["states"]["windows"]["rows"][0]]
    assert columns[:3] == ["__k0", "__k1", "__slot"]
    assert "__avg(x).sum" in columns


def test_show_of_an_old_version_says_why_it_is_raw(headrace: Headrace, job: str) -> None:
    store = Home(LocalDisk(), ".headrace", "test").open_read_only()
    assert store is not None
    newest = store.list_checkpoints()[-1]
    old = {name: said for name, said in store.read_manifest(newest).items() if name != "readings"}
    store.prepare()
    store.commit(newest + 1, {n: s for n, s in old.items() if n not in ("job", "number", "format")})
    ran = headrace("state", "show", "test", "step")
    why = "it was written by a version that did not say how to read it"
    assert ran.err == f"step is shown as it is stored: {why}\n"
    assert "__k0" in ran.out


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["show", "tset", "step"], 'there is no job "tset" in .headrace, nor a savepoint'),
        (["show", "test@77", "step"], "test has no checkpoint 77"),
        (
            ["show", "test", "stpe"],
            ' of test has no state of "stpe"\n      did you mean "step"?',
        ),
        (["show", "test", "rows"], " of test has the state of step"),
        (["show", "test", "step", "--key", "a"], "step: wanted shop and odd of its key as well"),
        (["show", "test", "step", "--key", "odd=x,shop=a"], 'step: odd: wanted bigint, got "x"'),
        (["show", "test", "step", "--limit", "0"], 'wanted a whole number from 1 on, got "0"'),
        (["query", "test", "select * from setp"], 'there is no table "setp"\n      did you mean'),
        (["query", "test", "select * from nope"], "the tables are step, step_windows, sources,"),
        (["query", "test", "select m from step"], 'query:1:8: unknown column "m"'),
        (["query", "test", "selec n"], 'query:1:1: wanted "select", got "selec"'),
        (["query", "test", "select n, sum(n) from step"], "^ first(n), or add it to group by"),
        (["query", "test", "select n from step join t on x"], "^^^^ a query reads one table: "),
        (["query", "test", "select raise_error('no') from step"], "headrace: raise_error: no"),
        (["query", "test", "drop table step"], "wanted a query, got another statement"),
        (["query", "test", "select n + at from step"], "query:1:"),
        (["query", "test", "select 1", "--format", "parquet"], "wanted a file for parquet"),
        (["ls", "test@1", "--home", "nowhere"], 'there is no job "test@1" in nowhere'),
        (["list"], 'no such command "list", did you mean "ls"?'),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_mistakes(headrace: Headrace, job: str, arguments: list[str], said: str) -> None:
    ran = headrace("state", *arguments)
    assert (ran.status, ran.out) == (2, "")
    assert said in ran.err
    assert "Traceback" not in ran.err


def test_ls_of_a_home(headrace: Headrace, job: str) -> None:
    saved = headrace("state", "export", job).out.strip()
    newest = int(job.removeprefix("test@"))
    older = [f"test@{newest - 1}", f"test@{newest - 2}"]
    said = answer(headrace("state", "ls", "--json"))
    assert [one["what"] for one in said] == [job, *older, saved]
    assert {one["time"] for one in said} == {"2026-01-31T08:00:00Z"}
    lines = headrace("state", "ls").out.splitlines()
    assert lines[0].split() == ["what", "kind", "taken", "at", "headrace", "bytes"]
    assert [line.split()[1] for line in lines[1:]] == [one["kind"] for one in said]
    Path("empty").mkdir()
    assert answer(headrace("state", "ls", "--json", "--home", "empty")) == []
    assert (
        headrace("state", "ls", "--home", "empty").err
        == "there are no checkpoints or savepoints in empty\n"
    )
    ran = headrace("state", "ls", "--home", "nowhere")
    assert (ran.status, ran.err.splitlines()[0]) == (2, "headrace: there is no folder nowhere")


def test_what_is_no_job_is_in_no_list(headrace: Headrace, job: str) -> None:
    saved = headrace("state", "export", job).out.strip()
    for folder in (Path(".headrace"), Path(saved).parent.parent, Path(saved).parent):
        (folder / ".DS_Store").touch()
    Path(".headrace/aside/old").mkdir(parents=True)
    Path(".headrace/test/lock").unlink()
    every = answer(headrace("state", "ls", "--json"))
    assert {(one["job"], one["damaged"]) for one in every} == {("test", None)}
    assert every[-1]["what"] == saved
    assert [one["name"] for one in answer(headrace("jobs", "--json"))] == ["test"]


def commit_invisible(home: Home) -> int:
    """Add a checkpoint after the newest whose output may not be committed; return its number."""
    store = home.open_read_only()
    assert store is not None
    newest = store.list_checkpoints()[-1]
    said: Any = store.read_manifest(newest)
    sinks = {
        sink: {**kept, "handles": [{"subtask": 0, "handle": {}}]}
        for sink, kept in said["sinks"].items()
    }
    new = {name: kept for name, kept in said.items() if name not in ("job", "number", "format")}
    store.prepare()
    store.commit(newest + 1, {**new, "sinks": sinks})
    return newest + 1


def test_export_of_a_job_that_runs_takes_what_is_visible(headrace: Headrace, job: str) -> None:
    home = Home(LocalDisk(), ".headrace", "test")
    newest = int(job.removeprefix("test@"))
    invisible = commit_invisible(home)
    with home.hold("2026-01-31T08:00:00Z"):
        saved = headrace("state", "export", "test")
        assert (saved.status, saved.err) == (0, "")
        assert open_savepoint(saved.out.strip()).number == newest
        asked = headrace("state", "export", f"test@{invisible}")
        assert (asked.status, asked.out) == (3, "")
        assert asked.err.endswith("\n      the job runs: headrace savepoint test\n")
        home.write_commit_record(invisible)
        saved = headrace("state", "export", "test")
        assert open_savepoint(saved.out.strip()).number == invisible


def test_export_of_a_job_that_was_killed_takes_the_newest_or_none(
    headrace: Headrace, job: str
) -> None:
    """The rows after an older checkpoint may be committed, and would be written again."""
    invisible = commit_invisible(Home(LocalDisk(), ".headrace", "test"))
    ran = headrace("state", "export", "test")
    assert (ran.status, ran.out) == (3, "")
    assert f"checkpoint {invisible} has output of " in ran.err
    assert "a run resumed from it commits that output" in ran.err


def test_ls_of_a_checkpoint(headrace: Headrace, job: str) -> None:
    said = answer(headrace("state", "ls", "test", "--groups", "--json"))
    (split,) = said["sources"]["rows"]
    assert (split["split"], split["rows"], split["bad"], split["ended"]) == (
        "0",
        len(ROWS),
        0,
        False,
    )
    step = said["steps"]["step"]
    assert step["key"] == [{"name": "shop", "type": "string"}, {"name": "odd", "type": "bigint"}]
    assert step["clock"] == "2026-01-31T08:00:07Z"
    assert said["bytes"] == step["bytes"] == step["states"]["windows"]["bytes"] > 0
    windows = step["states"]["windows"]
    assert (windows["kind"], windows["keys"], windows["key_groups"]) == ("runs", 5, 5)
    assert sum(group["rows"] for group in windows["groups"]) == windows["rows"]
    most = max(windows["groups"], key=lambda group: int(group["rows"]))
    assert windows["most_loaded"] == most["group"]
    text = headrace("state", "ls", "test", "--groups").out
    number = job.removeprefix("test@")
    assert text.startswith(f"checkpoint {number} of test\n  taken at 2026-01-31T08:00:00Z by ")
    assert "step: key s string, (k % 2) bigint; window tumble 10s; aggregate of " in text
    assert f"windows: most are in key group {most['group']}: " in text


def test_a_savepoint_is_described_without_reading_its_rows(headrace: Headrace, job: str) -> None:
    saved = headrace("state", "export", "test").out.strip()
    whole = answer(headrace("state", "ls", "test", "--json"))
    told = answer(headrace("state", "ls", saved, "--json"))
    windows = told["steps"]["step"]["states"]["windows"]
    assert windows["rows"] == whole["steps"]["step"]["states"]["windows"]["rows"]
    assert (windows["keys"], windows["key_groups"]) == (None, None)
    counted = answer(headrace("state", "ls", saved, "--groups", "--json"))
    assert counted["steps"]["step"]["states"]["windows"]["keys"] == 5
    for file in Path(saved).rglob("*.parquet"):
        file.write_bytes(b"x" * file.stat().st_size)
    assert answer(headrace("state", "ls", saved, "--json")) == told
    ran = headrace("state", "ls", saved, "--groups")
    assert (ran.status, ran.out) == (3, "")
    assert "is damaged" in ran.err


def test_query(headrace: Headrace, job: str) -> None:
    sql = "select shop, sum(n) as n, max(d) as d from step group by shop order by shop nulls last"
    rows = [("a", 2, "4.00"), ("b", 2, "7.00"), ("c", 1, "3.00"), (None, 1, "1.00")]
    known = [{"shop": shop, "n": n, "d": d} for shop, n, d in rows]
    known[1]["d"] = "9.00"
    assert answer(headrace("state", "query", "test", sql, "--json")) == known
    assert answer(headrace("state", "query", "test", sql, "--format", "json")) == known
    csv = headrace("state", "query", "test", sql, "--format", "csv").out
    assert csv == "shop,n,d\na,2,4.00\nb,2,9.00\nc,1,3.00\n,1,1.00\n"
    table = headrace("state", "query", "test", sql).out
    assert table == "shop  n     d\na     2  4.00\nb     2  9.00\nc     1  3.00\nnull  1  1.00\n"
    assert headrace("state", "query", "test", sql, "--format", "parquet", "--to", "x").out == ""
    assert pl.read_parquet("x").rows()[0][:2] == ("a", 2)


def test_a_text_with_the_name_of_a_column_is_warned_of(headrace: Headrace) -> None:
    Stopped(Path.cwd(), "from: rows, key: {user: s}, aggregate: {n: count(*)}", on_disk=True)
    ran = headrace("state", "query", "test", 'select max("user") as u from step', "--home", "home")
    assert '"user" is a text, and not the column of that name' in ran.err
    assert ran.out == "u\nuser\n"
    sql = "select max(user) as u from step"
    assert answer(headrace("state", "query", "test", sql, "--home", "home", "--json")) == [
        {"u": "c"}
    ]


def test_all_errors_of_a_query_are_reported_with_their_places(headrace: Headrace, job: str) -> None:
    ran = headrace("state", "query", "test", "select m from step\nwhere q > 1\norder by z")
    assert [line for line in ran.err.splitlines() if line.startswith("query:")] == [
        'query:1:8: unknown column "m"',
        'query:2:7: unknown column "q"',
        'query:3:10: unknown column "z"',
    ]


def test_query_reads_sources_and_counts(headrace: Headrace, job: str) -> None:
    found = answer(headrace("state", "query", "test", "show tables", "--json"))
    assert [each["name"] for each in found] == ["step", "step_windows", "sources", "counts"]
    (split,) = answer(headrace("state", "query", "test", "select * from sources", "--json"))
    assert (split["source"], split["split"], split["rows"]) == ("rows", "0", len(ROWS))
    sql = "select part, rows_in from counts where part = 'step'"
    assert answer(headrace("state", "query", "test", sql, "--json")) == [
        {"part": "step", "rows_in": len(ROWS)}
    ]


def test_diff_of_savepoints(headrace: Headrace) -> None:
    step = "from: rows, key: k, aggregate: {n: count(*), x: max(x)}"
    Stopped(Path("old"), step, on_disk=True)
    before = headrace("state", "export", "test", "--home", "old/home").out.strip()
    Stopped(Path.cwd(), step, before=[*ROWS[:2], *LATER], on_disk=True)
    said = answer(headrace("state", "diff", before, "test", "--home", "home", "--json"))
    (source,) = said["sources"]
    assert (source["what"], source["rows"]) == ("read on", -2)
    keys = said["steps"]["step"]["states"]["keys"]
    assert (keys["added"], keys["removed"], keys["changed"]) == (1, 1, 2)
    assert keys["examples"]["added"] == [
        {"k": 4, "n": 1, "x": 1.0, "event_time": "2026-01-31T08:00:09Z"}
    ]
    assert [row["k"] for row in keys["examples"]["removed"]] == [None]
    (one,) = (each for each in keys["examples"]["changed"] if each["key"] == {"k": 1})
    assert (one["from"]["n"], one["from"]["x"], one["to"]["n"], one["to"]["x"]) == (
        3,
        "NaN",
        2,
        2.5,
    )
    text = headrace("state", "diff", before, "test", "--home", "home", "--limit", "1").out
    assert "step keys: 1 added, 1 removed, 2 changed, 0 the same\n  + k 4, n 1, " in text
    assert "\n  ~ k " in text
    none = headrace("state", "diff", before, before).out
    assert "step keys: 0 added, 0 removed, 0 changed, 3 the same" in none


FILES = """\
sources:
  rows: {files: {path: in.csv}, format: csv, schema: {k: bigint, v: bigint}}
steps:
  sums: {from: rows, key: k, aggregate: {n: count(*), t: sum(v)}}
  best: {from: rows, key: k, top: {n: 2, by: v desc}}
sinks:
  a: {from: sums, files: {path: a}}
  b: {from: best, files: {path: b}}
"""


@pytest.fixture
def files(headrace: Headrace) -> Headrace:
    """With a job that reads files, and has a checkpoint."""
    plan = plan_of(Path.cwd(), FILES, REGISTRY)
    home = Home(LocalDisk(), ".headrace", "test")
    with home.hold("now"):
        home.open_store(home.ensure_job_id("now")).commit(1, document(plan))
    Path("q.yaml").write_text(f"name: test\n{FILES}")
    return headrace


def test_diff_with_a_pipeline_that_fits(files: Headrace) -> None:
    Path("q.yaml").write_text(Path("q.yaml").read_text().replace("n: count(*)", "m: COUNT( * )"))
    ran = files("state", "diff", "test", "q.yaml")
    assert (ran.status, ran.err) == (0, "")
    assert ran.out == (
        "q.yaml can resume from checkpoint 1 of test\n  the state of best, sums is compatible\n"
    )


def test_diff_with_a_pipeline_that_does_not_fit(files: Headrace) -> None:
    text = Path("q.yaml").read_text()
    text = text.replace("n: count(*), t: sum(v)", "t: sum(v), m: max(v)").replace("n: 2", "n: 3")
    Path("q.yaml").write_text(text)
    ran = files("state", "diff", "test", "q.yaml")
    assert (ran.status, ran.err) == (3, "")
    assert ran.out.startswith(
        "q.yaml cannot resume from checkpoint 1 of test\n"
        "  the state of sums is compatible\n"
        "  sums has max(v) of bigint only for new rows\n"
        "not compatible:\n"
        "  the state of best belongs to another operation\n"
    )
    assert "would be lost:\n  it has count(*) in the state of sums, which it no longer" in ran.out
    said = files("state", "diff", "test", "q.yaml", "--json")
    found = json.loads(said.out)
    assert (said.status, found["fits"], found["goes_on"]) == (3, False, ["sums"])
    assert len(found["refused"]) == len(found["lost"]) == 1


def test_diff_with_a_file_that_is_no_pipeline(files: Headrace) -> None:
    Path("q.yaml").write_text("name: test\nstep: {}\n")
    ran = files("state", "diff", "test", "q.yaml")
    assert (ran.status, ran.out) == (2, "")
    assert "q.yaml:2" in ran.err


def test_a_time_that_polars_cannot_write_is_shown_with_its_year_in_full() -> None:
    far = pl.Series("at", [2**63 - 1, None]).cast(to_polars(TIMESTAMP))
    nested = far.to_frame().select("at", all=pl.concat_list("at"))
    text = "+294247-01-10T04:00:54.775807Z"
    assert to_plain_rows(nested) == [{"at": text, "all": [text]}, {"at": None, "all": [None]}]
