"""The loops of configs/: their tests pass, and they print what the page shows."""

from __future__ import annotations

import json

from docs.snippets import ROOT
from tests.support.cli.command_line import Headrace

LOOPS = ROOT / "configs" / "loops"


def test_the_tests_of_the_loops_pass(headrace: Headrace) -> None:
    ran = headrace("test", str(LOOPS))
    assert ran.status == 0, ran.out + ran.err
    assert "8 passed" in ran.out + ran.err


def test_ten_rounds_print_their_numbers(headrace: Headrace) -> None:
    for parallelism in ("1", "3"):
        file = str(LOOPS / "stream.yaml")
        ran = headrace("run", file, "--fresh", "--set", f"settings.parallelism={parallelism}")
        assert ran.status == 0, ran.err
        assert sorted(ran.out.split()) == [f'{{"n":{n}}}' for n in range(11, 16)]


def test_a_simulated_loop_gives_what_the_interpreter_gives(headrace: Headrace) -> None:
    ran = headrace("simulate", str(LOOPS / "stream.yaml"), "--seeds", "3")
    assert ran.status == 0, ran.out + ran.err
    assert "compared with the reference interpreter: results" in ran.out + ran.err


def test_the_summary_counts_the_rows_that_came_back(headrace: Headrace) -> None:
    ran = headrace("run", str(LOOPS / "stream.yaml"), "--fresh")
    assert "metrics of tries: rows_back 50, rows_left 5\n" in ran.err


def test_a_ranking_is_computed_in_rounds(headrace: Headrace) -> None:
    for parallelism in ("1", "3"):
        file = str(LOOPS / "bulk.yaml")
        ran = headrace("run", file, "--fresh", "--set", f"settings.parallelism={parallelism}")
        assert ran.status == 0, ran.err
        ranks = {row["page"]: row["rank"] for row in map(json.loads, ran.out.split())}
        assert ranks == {3: 150000, 4: 150000, 1: 1519608, 2: 1569166, 0: 1611208}
        assert "metrics of ranks: rounds 57, rows_changed 232, " in ran.err
        table = ran.err.partition("rounds of ranks  rows changed  seconds\n")[2].splitlines()
        assert [line.split()[0] for line in table[:11]] == "1 2 3 4 5 47 53 54 55 56 57".split()
        assert [line.split()[1] for line in table[:2]] == ["8", "4"]
        assert table[5].split() == ["47", "more"]


def test_a_graph_is_contracted_to_one_place_for_each_component(headrace: Headrace) -> None:
    file = str(LOOPS / "contraction.yaml")
    ran = headrace("run", file, "--fresh", "--set", "settings.parallelism=3")
    assert ran.status == 0, ran.err
    changes = [json.loads(line) for line in ran.out.splitlines()]
    last = {row["component"]: (row["least"], row["nodes"]) for row in changes}
    assert sorted(last.values()) == [(0, 900), *((least, 10) for least in range(900, 1000, 10))]
