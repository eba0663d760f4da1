"""A job whose state is of a plan that an earlier version built resumes with that plan."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from headrace.cli.pipeline_file import check_pipeline
from headrace.core.pipeline.loader import PlanVersion
from tests.support.cli.processes import finished, limited

ROWS = 3000
PIPELINE = f"""\
name: joined
settings: {{checkpoint: {{every: 100ms}}}}
sources:
  a: {{generate: {{rows: {ROWS}, rate: 1000/s, columns: {{k: id % 50, n: id % 7}}}}}}
  b: {{generate: {{rows: {ROWS}, rate: 1000/s, columns: {{k: id % 50, m: id}}}}}}
steps:
  mine: {{from: a, dedup: {{key: k, keep: last}}}}
  theirs: {{from: b, dedup: {{key: k, keep: last}}}}
  joined:
    join: {{left: mine, right: theirs, on: mine.k = theirs.k, type: full}}
    select: {{k: mine.k, other: theirs.k, n: n, m: m}}
  step: {{from: joined, key: n, aggregate: {{rows: count(*), newest: max(m)}}}}
sinks:
  out: {{from: step, files: {{path: out}}}}
"""
ORDERED = f"""\
name: ordered
settings: {{checkpoint: {{every: 100ms}}}}
sources:
  a:
    generate:
      rows: {ROWS}
      rate: 1000/s
      columns: {{k: id % 50, n: "1", seq: (49 - id % 50) * 100000 + id}}
    table: {{key: k, sequence: seq}}
steps:
  step: {{from: a, key: n, aggregate: {{all: collect_list(k)}}}}
sinks:
  out: {{from: step, files: {{path: out}}}}
"""
"""A table whose sequence and order of arrival are opposite, but for the changes of one key."""
LOOPED = f"""\
name: looped
settings: {{checkpoint: {{every: 100ms}}}}
sources:
  pages: {{generate: {{rows: 5, columns: {{page: id}}}}}}
  a: {{generate: {{rows: {ROWS}, rate: 1000/s, columns: {{page: id % 5, to: id % 7 % 5}}}}}}
steps:
  start: {{from: pages, select: {{page: page, rank: 1L}}}}
  ranks: {{iterate: {{bulk: start, body: step, rounds: 5}}}}
  given:
    join: {{left: {{from: ranks.loop, as: one}}, right: a, on: one.page = a.page}}
    select: {{page: a.to, rank: one.rank}}
  step: {{from: given, key: page, aggregate: {{rank: sum(rank) % 1000}}}}
sinks:
  out: {{from: ranks, files: {{path: out}}}}
"""
REPLACED = f"""\
name: replaced
settings: {{checkpoint: {{every: 100ms}}}}
sources:
  nodes: {{generate: {{rows: 40, columns: {{id: id, value: id}}}}}}
  a: {{generate: {{rows: {ROWS}, rate: 1000/s, columns: {{one: id % 40 - 3, other: id % 40}}}}}}
steps:
  minimum:
    iterate: {{delta: {{solution: nodes, workset: nodes, key: id}}, body: step, max_rounds: 100}}
  sent:
    join: {{left: {{from: minimum.workset, as: changed}}, right: a, on: changed.id = a.one}}
    select: {{id: a.other, value: changed.value}}
  least: {{from: sent, key: id, aggregate: {{value: min(value)}}}}
  step:
    join: {{left: least, right: {{from: minimum.solution, as: old}}, on: least.id = old.id}}
    where: least.value < old.value
    select: {{id: least.id, value: least.value}}
sinks:
  out: {{from: minimum, files: {{path: out}}}}
"""
"""Nodes that take the least value of the nodes three, six, nine and so on before them."""
INSIDE = "  step: {from: given,"
UNION = """\
  bases: {from: pages, select: {page: page, rank: 2L}}
  step: {from: [given, bases],"""
EARLIER_VERSION = """
import sys
from dataclasses import replace

from headrace.core.pipeline import loader

number, *sys.argv[1:] = sys.argv[1:]
version = loader.PlanVersion(int(number))
load_pipeline = loader.load_pipeline


def load_earlier(*arguments, **named):
    loaded = load_pipeline(*arguments, **named)
    return replace(loaded, inputs=replace(loaded.inputs, plan_version=version))


loader.load_pipeline = load_earlier
from headrace.cli.main import main

main()
"""
"""A version that builds plans by the rules of a PlanVersion."""


def resume_from_earlier(tmp_path: Path, text: str, version: PlanVersion) -> list[dict[str, Any]]:
    """Stop a job of an earlier version, resume it to its end, and return all rows."""
    (tmp_path / "p.yaml").write_text(text)
    command = [sys.executable, "-c", EARLIER_VERSION, str(int(version))]
    command += ["run", "p.yaml", "--log", "json"]
    with limited(
        subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.PIPE, text=True)
    ) as earlier:
        assert earlier.stderr is not None
        events = (json.loads(line) for line in earlier.stderr)
        next(event for event in events if event.get("number") == 3)
        earlier.send_signal(signal.SIGTERM)
        earlier.stderr.read()
    ran = finished(tmp_path, "p.yaml", "--set", "sources.a.generate.rate=1000000/s")
    assert ran.returncode == 0, ran.stderr
    assert "resumed from checkpoint" in ran.stderr
    parts = sorted((tmp_path / "out").iterdir(), key=lambda each: each.stat().st_mtime_ns)
    return [json.loads(line) for part in parts for line in part.read_text().splitlines()]


def list_earlier(tmp_path: Path) -> list[PlanVersion]:
    """List the earlier versions whose plan of the pipeline differs from that of later ones."""
    checked = check_pipeline(str(tmp_path / "p.yaml"), ())
    return [loaded.inputs.plan_version for loaded, _ in checked.build_earlier_plans()]


def test_a_full_join_keeps_the_key_that_its_state_has(tmp_path: Path) -> None:
    written = resume_from_earlier(tmp_path, PIPELINE, PlanVersion.JOIN_KEYS)
    assert list_earlier(tmp_path) == [PlanVersion.JOIN_KEYS]
    rows = {row["n"]: row for row in written}
    counts = [row["rows"] for row in rows.values() if not row.get("_delete")]
    assert sum(counts) == 50
    assert max(row["newest"] for row in rows.values()) == ROWS - 1


@pytest.mark.parametrize(
    ("text", "version"),
    [
        (LOOPED, PlanVersion.ROUND_DIFFERENCES),
        (LOOPED.replace(INSIDE, UNION), PlanVersion.ROUND_STEPS),
    ],
    ids=["joins", "unions"],
)
def test_a_loop_sends_what_its_steps_have_stored(
    tmp_path: Path, text: str, version: PlanVersion
) -> None:
    written = resume_from_earlier(tmp_path, text, version)
    assert list_earlier(tmp_path) == [version]
    ranks = dict.fromkeys(range(5), 1)
    for _ in range(5):
        given = Counter(dict.fromkeys(range(5), 2 if UNION in text else 0))
        for at in range(ROWS):
            given[at % 7 % 5] += ranks[at % 5]
        ranks = {page: rank % 1000 for page, rank in given.items()}
    assert {row["page"]: row["rank"] for row in written} == ranks


def test_a_delta_iteration_sends_what_its_steps_have_stored(tmp_path: Path) -> None:
    written = resume_from_earlier(tmp_path, REPLACED, PlanVersion.ROUND_DIFFERENCES)
    assert list_earlier(tmp_path) == [PlanVersion.ROUND_DIFFERENCES]
    assert sorted((row["id"], row["value"]) for row in written) == [(n, n % 3) for n in range(40)]


@pytest.mark.parametrize("version", PlanVersion)
def test_rows_of_a_table_keep_the_order_in_which_they_are_stored(
    tmp_path: Path, version: PlanVersion
) -> None:
    *_, last = resume_from_earlier(tmp_path, ORDERED, version)
    assert list_earlier(tmp_path) == [PlanVersion.EVENT_TIME_ORDER]
    by_place = [*range(50)]
    is_new = version > PlanVersion.EVENT_TIME_ORDER
    assert last["all"] == (by_place[::-1] if is_new else by_place)
