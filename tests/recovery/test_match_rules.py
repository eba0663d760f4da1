"""Matches of rules whose processes are killed, rescaled and restored while runs are open.

Each match is emitted once, by the rule of its time.
"""

from __future__ import annotations

import json
import subprocess
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path

from headrace.cli.pipeline_file import check_pipeline
from headrace.core.testing.reference.interpreter import interpret
from tests.support.cli.command_process import HEADRACE
from tests.support.cli.processes import ended, finished, start

ROWS = 400
PIPELINE = f"""\
name: killed
settings: {{parallelism: 2, checkpoint: {{every: 100ms}}}}
sources:
  rows:
    generate:
      rate: 10/s
      rows: {ROWS}
      columns: {{k: id % 10, v: (id * id + id % 7) % 11, at: timestamp_seconds(id)}}
    event_time: at
  rules:
    files: {{path: rules.jsonl}}
    schema: {{rule: string, pattern: string, define: string, emit: string, within: string,
             removed: boolean, at: timestamp}}
    event_time: at
steps:
  alerts:
    from: rows
    key: k
    match: {{rules: rules, returns: {{low: bigint, high: bigint}}, incomplete_to: unfinished}}
sinks:
  out: {{from: alerts, files: {{path: out}}}}
  unfinished_out: {{from: unfinished, files: {{path: unfinished}}}}
"""
RISE: dict[str, object] = {
    "rule": "rise",
    "pattern": "a -> b+ -> c",
    "define": '{"a": "v < 3", "b": "v > last(b.v, a.v)", "c": "v < a.v"}',
    "emit": '{"low": "a.v", "high": "max(b.v)"}',
    "within": "80s",
}
QUIET: dict[str, object] = {
    "rule": "quiet",
    "pattern": "a -> not b",
    "define": '{"a": "v = 0", "b": "v > 8"}',
    "emit": '{"low": "a.v"}',
    "within": "50s",
}
RULES: list[tuple[int, dict[str, object]]] = [
    (0, RISE),
    (0, QUIET),
    (10, {**RISE, "pattern": "a b+ -> c"}),
    (20, {"rule": "quiet", "removed": True}),
    (40, {**RISE, "rule": "other"}),
    (250, {**QUIET, "within": "2m"}),
    (300, {"rule": "other", "removed": True}),
]
"""Rules with the second from which each holds."""


def to_time(second: int) -> datetime:
    return datetime.fromtimestamp(second, UTC)


def write_files(folder: Path) -> None:
    (folder / "p.yaml").write_text(PIPELINE)
    with (folder / "rules.jsonl").open("w") as file:
        for second, rule in RULES:
            print(json.dumps({**rule, "at": to_time(second).isoformat()}), file=file)


def run_until(folder: Path, checkpoints: int, *options: str) -> subprocess.Popen[str]:
    """Run the job until it has taken as many checkpoints."""
    process = start(folder, "p.yaml", "--log", "json", *options)
    assert process.stderr is not None
    taken = 0
    for line in process.stderr:
        taken += "number" in json.loads(line)
        if taken >= checkpoints:
            break
    return process


def kill(process: subprocess.Popen[str]) -> None:
    process.kill()
    ended(process)
    assert process.returncode == -9


def run_command(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Run a command about the job."""
    ran = subprocess.run([*HEADRACE, *words], cwd=folder, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    return ran


def finish(folder: Path, *options: str) -> None:
    ran = finished(
        folder, "p.yaml", "--quiet", "--set", "sources.rows.generate.rate=1M/s", *options
    )
    assert ran.returncode == 0, ran.stderr


def read_output(*folders: Path) -> Counter[str]:
    """Return the committed rows, as JSON."""
    paths = (path for folder in folders for path in folder.glob("*.jsonl"))
    lines = (line for path in paths for line in path.read_text().splitlines())
    return Counter(json.dumps(json.loads(line), sort_keys=True) for line in lines)


def compute_output(folder: Path) -> Counter[str]:
    """Return the rows that the plan means, as JSON."""
    plan = check_pipeline(str(folder / "p.yaml"), ()).plan
    assert plan is not None
    rows = [{"k": n % 10, "v": (n * n + n % 7) % 11, "at": to_time(n)} for n in range(ROWS)]
    columns = dict.fromkeys(("rule", "pattern", "define", "emit", "within", "removed"))
    rules = [{**columns, **rule, "at": to_time(second)} for second, rule in RULES]
    found = interpret(plan, {"rows": [rows], "rules": [rules]})
    values = (
        {name: row.values[name] for name in plan.streams[stream].schema.names}
        for stream in ("alerts", "unfinished")
        for row in found[stream]
    )
    return Counter(json.dumps(each, sort_keys=True, default=format_time) for each in values)


def format_time(value: datetime) -> str:
    return value.isoformat(timespec="microseconds").replace("+00:00", "Z")


def test_open_runs_of_rules_survive_kills_rescales_and_a_savepoint(tmp_path: Path) -> None:
    write_files(tmp_path)
    outputs = tmp_path / "out", tmp_path / "unfinished"
    wanted = compute_output(tmp_path)
    assert len(wanted) > 50 and {json.loads(row)["rule"] for row in wanted} == {
        *("rise", "quiet", "other")
    }
    process = run_until(tmp_path, 4)
    for number in range(50):  # on a busy machine there are few rows at first
        saved = f"saved-{number}"
        run_command(tmp_path, "savepoint", "killed", "--to", saved)
        shown = run_command(tmp_path, "state", "show", saved, "alerts")
        if "alerts keys: no rows" not in shown.stdout:
            break
    assert "alerts keys: no rows" not in shown.stdout
    assert "alerts: rules that wait for the watermark are in held_right" in shown.stderr
    emitted = read_output(*outputs)
    kill(process)
    kill(run_until(tmp_path, 3, "--parallelism", "3"))
    assert read_output(*outputs) < wanted
    finish(tmp_path, "--parallelism", "2")
    assert read_output(*outputs) == wanted
    again = tmp_path / "again"
    paths = (f"sinks.{name}.files.path={again / name}" for name in ("out", "unfinished_out"))
    options = [word for path in paths for word in ("--set", path)]
    finish(tmp_path, "--home", "other", "--from-savepoint", saved, "--parallelism", "3", *options)
    rest = read_output(again / "out", again / "unfinished_out")
    assert rest <= wanted and wanted - rest <= emitted
