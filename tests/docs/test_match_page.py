"""The tables of docs/match.md: what they say of our matches is what a job finds."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import polars as pl
import pytest

from docs.snippets import ROOT
from headrace.connectors.memory import InMemoryData
from tests.support.runtime.memory_pipelines import simulated
from tests.support.trials import START

PAGE = (ROOT / "docs" / "match.md").read_text("utf-8")
ROWS = "a1 a2 b1 c1 x b2 c2"
"""The rows of the first table."""
SKIPS = ("past_last", "next", "none")
NOTHING, REFUSED = "-", "refused"
PIPELINE = """
    sources:
      rows:
        memory: {{data: in}}
        schema: {{event: string, at: timestamp}}
        event_time: at
        watermark: {{delay: 0s}}
    steps:
      step:
        from: rows
        match:
          pattern: "{pattern}"
          define: {{{define}}}
          within: 1h
          after_match: {skip}
          all_rows: true
    sinks:
      out: {{from: step, memory: {{data: out}}}}
    """

Case = tuple[str, str, str, str]
"""The rows, the pattern, the rule after a match, and the matches that the page names."""


def list_cases() -> Iterator[Case]:
    for cells in _list_lines(4):
        if cells[0].startswith("`") and cells[0] != "`pattern`":
            for skip, matches in zip(SKIPS, cells[1:], strict=True):
                yield ROWS, cells[0].strip("`"), skip, matches
    for cells in _list_lines(5):
        if cells[0].startswith("`"):
            rows, pattern, skip = (cell.strip("`") for cell in cells[:3])
            yield rows, pattern, skip, cells[3]


def _list_lines(columns: int) -> Iterator[list[str]]:
    """Yield the cells of the tables that have this number of columns."""
    for line in PAGE.splitlines():
        cells = [
            cell.strip().replace("¦", "|") for cell in line.replace(r"\|", "¦").split("|")[1:-1]
        ]
        if line.startswith("|") and len(cells) == columns:
            yield cells


CASES = list(list_cases())


def write_pipeline(pattern: str, skip: str) -> str:
    """Return a pipeline in which a row fits the variables whose letters are in its event."""
    names = dict.fromkeys(re.findall(r"[a-z]", pattern.replace("not ", "")))
    define = ", ".join(f"{name}: \"contains(event, '{name}')\"" for name in names)
    return PIPELINE.format(pattern=pattern, skip=skip, define=define)


def find_matches(folder: Path, rows: str, text: str) -> list[str]:
    """Return the events of each match that a job finds."""
    events = rows.split()
    times = [START + timedelta(seconds=at) for at in range(len(events))]
    types = {"event": pl.String(), "at": pl.Datetime("us", "UTC")}
    memory = InMemoryData({"in": {"0": [pl.DataFrame([events, times], types)]}})
    outcome = simulated(folder, text, memory, 0)
    assert outcome.failure is None, outcome.failure
    matches: list[list[str]] = []
    for frame in memory.outputs.get("out", []):
        for row in frame.rows(named=True):
            if row["at"] == row["match_start"]:
                matches.append([])
            matches[-1].append(row["event"])
    return sorted(map(" ".join, matches))


def test_the_tables_have_each_sign_quantifier_and_rule() -> None:
    signs = {" ", " -> ", " => "}
    quantifiers = {"", "?", "+", "+?", "*", "{2}"}
    wanted = {(f"a{s}b{q}{s}c", skip) for s in signs for q in quantifiers for skip in SKIPS}
    assert wanted <= {(pattern, skip) for _, pattern, skip, _ in CASES}


@pytest.mark.parametrize(("rows", "pattern", "skip", "matches"), CASES)
def test_a_line_of_the_tables(
    rows: str, pattern: str, skip: str, matches: str, tmp_path: Path
) -> None:
    text = write_pipeline(pattern, skip)
    if matches == REFUSED:
        with pytest.raises(AssertionError, match="where the match began"):
            find_matches(tmp_path, rows, text)
        return
    wanted = [] if matches == NOTHING else matches.split(", ")
    assert find_matches(tmp_path, rows, text) == sorted(wanted)
