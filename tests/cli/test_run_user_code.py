"""Runs whose user code fails, or prints."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.support.cli.command_line import Headrace


def write(name: str, text: str) -> str:
    """A file in the working directory."""
    Path(name).write_text(text)
    return name


WINDOWED = """\
name: windowed
settings: {restart: {first: 1ms, factor: 1, jitter: 0}}
sources:
  rows:
    generate: {rows: 1000, columns: {k: id % 100, at: timestamp_seconds(id)}}
    event_time: at
steps:
  of_each: {from: rows, key: k, window: global, apply: {python: w.py:wrong, returns: {n: bigint}}}
sinks:
  out: {from: of_each, console: {}}
"""


def test_a_function_that_fails_on_any_key_ends_the_job_though_keys_come_in_no_order(
    headrace: Headrace,
) -> None:
    write("w.py", "def wrong(rows):\n    raise KeyError('n')\n")
    ran = headrace("run", write("p.yaml", WINDOWED))
    assert ran.status == 1
    assert len(re.findall("w.py:2: KeyError: 'n'|the same failure", ran.err)) == 3


PRINTING = """\
name: printing
sources:
  rows: {generate: {rows: 2, columns: {n: id}}}
steps:
  same: {from: rows, map: {python: m.py:same, returns: {n: bigint}}}
sinks:
  out: {from: same, %s}
"""


@pytest.mark.parametrize(
    ("sink", "rows", "apart"),
    [("stdout: {}", '{"n":0}\n{"n":1}\n', True), ("files: {path: out}", "came\n", False)],
)
def test_what_code_prints_does_not_stand_among_rows(
    headrace: Headrace, sink: str, rows: str, apart: bool
) -> None:
    write("m.py", "def same(rows):\n    print('came')\n    return rows\n")
    ran = headrace("run", write("p.yaml", PRINTING % sink))
    assert ran.out == rows
    assert ("came\n" in ran.err) == apart
