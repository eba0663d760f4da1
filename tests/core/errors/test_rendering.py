"""Rendering of problems: whatever the line contains, the caret is under the spot."""

from typing import Literal

from headrace.core.errors.problems import Location, Problem
from headrace.core.errors.rendering import MAX_LINE_WIDTH, format_problem_counts, render_problem


def problem(
    text: str, spot: str, hint: str = "", severity: Literal["error", "warning"] = "error"
) -> Problem:
    """Build a problem at the spot's first occurrence in the text."""
    place = Location("a.yaml", 27, text.index(spot) + 1, len(spot), text)
    return Problem('unknown column "x"', place, hint, 'step "s"', severity)


def test_the_design_s_own_example() -> None:
    text = "    aggregate: {n: count(*), total: sum(prise)}"
    assert render_problem(problem(text, "prise", 'did you mean "price_eur"?')).splitlines() == [
        'a.yaml:27:41: step "s": unknown column "x"',
        "   27 |     aggregate: {n: count(*), total: sum(prise)}",
        '      |                                         ^^^^^ did you mean "price_eur"?',
    ]


def test_a_warning_says_so() -> None:
    assert render_problem(problem("abc", "b", severity="warning")).startswith(
        "a.yaml:27:2: warning: step"
    )


def test_a_file_and_an_argument_have_no_line() -> None:
    whole = Problem("is empty", Location("a.yaml", 0, 0, 0, ""), "write a name")
    assert render_problem(whole) == "a.yaml: is empty\n      write a name"
    argument = Problem("unknown key", Location("--set", 0, 1, 3, "abc=1"))
    assert render_problem(argument) == "--set: unknown key\n      | abc=1\n      | ^^^"
    assert render_problem(Problem("nothing")) == "nothing"


def test_tabs_take_one_column_and_wide_characters_two() -> None:
    _, line, caret = render_problem(problem("\ta: 東京 + x", "x")).splitlines()
    assert line == "   27 |  a: 東京 + x"
    assert caret == "      |            ^"
    assert render_problem(problem("a: 東京", "東京")).endswith("|    ^^^^")


def test_control_characters_are_shown_as_such() -> None:
    _, line, caret = render_problem(problem("\x1b[2Ja: \0", "\0")).splitlines()
    assert line == r"   27 | \x1b[2Ja: \x00"
    assert caret == "      |           ^^^^"
    assert render_problem(Problem("got \x1b[0m")) == r"got \x1b[0m"


def test_of_a_very_long_line_only_the_part_around_the_spot_is_shown() -> None:
    _, line, caret = render_problem(problem("a" * 5000 + "X" + "b" * 5000, "X")).splitlines()
    assert len(line) < MAX_LINE_WIDTH + 20
    assert line.startswith("   27 | ...aaa")
    assert line.endswith("bbb...")
    assert line[caret.index("^")] == "X"
    _, line, caret = render_problem(problem("X" * 5000, "X" * 5000)).splitlines()
    assert line == f"   27 | {'X' * MAX_LINE_WIDTH}..."
    assert caret == f"      | {'^' * MAX_LINE_WIDTH}"


def test_a_tally_counts_what_there_is() -> None:
    wrong, doubtful = problem("a", "a"), problem("a", "a", severity="warning")
    assert format_problem_counts([]) == "no problems"
    assert format_problem_counts([wrong]) == "1 error"
    assert format_problem_counts([wrong, doubtful, doubtful]) == "1 error, 2 warnings"
