"""Similar names, and the order in which problems are reported."""

from headrace.core.errors.problems import (
    Location,
    Problem,
    find_nearest_name,
    sort_problems,
    suggest_name,
)


def test_case_does_not_keep_a_name_from_being_near() -> None:
    assert find_nearest_name("PRICE", ["auction", "price"]) == "price"
    assert suggest_name("form", ["from", "where"]) == 'did you mean "from"?'


def test_what_is_far_is_not_guessed_at() -> None:
    assert find_nearest_name("x", ["from", "where"]) == ""
    assert suggest_name("window", ["from", "where"]) == ""
    assert find_nearest_name("", ["a"]) == ""


def test_very_many_and_very_long_names_do_not_take_for_ever() -> None:
    assert find_nearest_name("name_777x", (f"name_{n}" for n in range(100_000))) != ""
    assert find_nearest_name("x" * 1_000_000, ["y" * 1_000_000]) == ""


def test_problems_come_in_the_order_of_the_file_and_once() -> None:
    def at(line: int, column: int) -> Problem:
        return Problem("m", Location("p.yaml", line, column, 1, ""))

    argument = Problem("m", Location("--set a=1", 0, 7, 1, "--set a=1"))
    nowhere = Problem("m")
    shuffled = [at(2, 1), at(1, 9), argument, at(1, 2), nowhere, at(1, 9)]
    assert sort_problems(shuffled) == [nowhere, argument, at(1, 2), at(1, 9), at(2, 1)]
