"""Starter pipelines."""

from pathlib import Path

import pytest

from headrace.cli.new import find_templates
from tests.support.cli.command_line import Headrace


def test_without_a_template_all_are_listed(headrace: Headrace) -> None:
    ran = headrace("new")
    assert ran.status == 0
    assert [line.split()[0] for line in ran.out.splitlines()] == list(find_templates())


def test_the_file_is_named_after_the_template_or_as_said(headrace: Headrace) -> None:
    assert headrace("new", "files").err.startswith("wrote files.yaml\nnext: ")
    assert headrace("new", "files", "my_orders.yaml").status == 0
    text = Path("my_orders.yaml").read_text("utf-8")
    assert "\nname: my_orders\n" in text
    assert "headrace validate my_orders.yaml" in text
    assert "files.yaml" not in text


def test_a_name_that_no_pipeline_can_have_is_left_out(headrace: Headrace) -> None:
    headrace("new", "files", "1 2.yaml")
    assert "\nname: files\n" in Path("1 2.yaml").read_text("utf-8")


def test_new_writes_the_function_next_to_the_pipeline(headrace: Headrace) -> None:
    Path("jobs").mkdir()
    assert headrace("new", "files", "jobs").err.startswith("wrote jobs/files.yaml\n")
    assert headrace("new", "python", "jobs/p.yaml").status == 0
    assert sorted(path.name for path in Path("jobs").iterdir()) == [
        "files.yaml",
        "p.yaml",
        "score.py",
    ]


@pytest.mark.parametrize("template", find_templates())
def test_a_starter_pipeline_passes_its_test(headrace: Headrace, template: str) -> None:
    headrace("new", template, "mine.yaml")
    ran = headrace("test", "mine.yaml")
    assert (ran.status, ran.err.startswith("1 test: 1 passed")) == (0, True), ran.out + ran.err
    assert "run by: headrace test mine.yaml" in Path("mine.yaml").read_text("utf-8")


@pytest.mark.parametrize("there", ["python.yaml", "score.py"])
def test_nothing_is_overwritten(headrace: Headrace, there: str) -> None:
    Path(there).write_text("mine")
    ran = headrace("new", "python")
    assert (ran.status, ran.err) == (2, f"{there} already exists, and is left unchanged\n")
    assert [path.name for path in Path().iterdir()] == [there]
    assert Path(there).read_text() == "mine"


def test_a_misspelt_template_is_answered_with_the_near_one(headrace: Headrace) -> None:
    ran = headrace("new", "nexmrak")
    assert ran.status == 2
    assert 'no such template "nexmrak", did you mean "nexmark"?' in ran.err


def test_a_folder_that_is_not_there_is_named(headrace: Headrace) -> None:
    ran = headrace("new", "files", "nowhere/x.yaml")
    assert ran.status == 2
    assert ran.err == "cannot write nowhere/x.yaml: no such file or directory\n"
