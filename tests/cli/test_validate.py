"""validate and explain, and the pipelines that ship."""

import json
from pathlib import Path

import pytest

from docs.snippets import ROOT
from headrace.cli.new import find_templates
from tests.support.cli.command_line import Headrace

CONFIGS = sorted((ROOT / "configs").glob("*.yaml"))

GOOD = """\
name: good
sources:
  rows:
    generate: {rows: 10, columns: {x: id % 3, y: id * 2}}
steps:
  some:
    from: rows
    where: x > 0
    select: {x: x, z: y + 1}
sinks:
  out: {from: some, console: {}}
"""

DOUBTFUL = GOOD.replace(
    "  out:", "  a: {from: split.a, console: {}}\n  rest: {from: split.else, console: {}}\n  out:"
).replace("sinks:", "  split: {from: rows, route: {a: x = 1, b: x = 2}}\nsinks:")

BAD = GOOD.replace("where: x", "where: xx").replace("y + 1", "y + +").replace("{from: some,", "{")


@pytest.fixture(autouse=True)
def no_color(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")


def write(name: str, text: str) -> str:
    Path(name).write_text(text, "utf-8")
    return name


@pytest.mark.parametrize("path", CONFIGS, ids=lambda path: path.name)
def test_every_config_is_valid_and_explained(headrace: Headrace, path: Path) -> None:
    ran = headrace("validate", "--strict", str(path))
    assert (ran.status, ran.out) == (0, "")
    assert headrace("explain", str(path)).status == 0


@pytest.mark.parametrize("template", find_templates())
def test_every_template_is_valid(headrace: Headrace, template: str) -> None:
    headrace("new", template)
    ran = headrace("validate", "--strict", f"{template}.yaml")
    assert (ran.status, ran.out) == (0, "")


def test_a_sound_pipeline_is_counted(headrace: Headrace) -> None:
    ran = headrace("validate", write("a.yaml", GOOD))
    assert (ran.status, ran.out) == (0, "")
    assert ran.err == ("a.yaml: no problems; checked 1 source, 1 step, 5 expressions, 1 sink\n")


def test_all_problems_come_in_file_order_with_a_count(headrace: Headrace) -> None:
    ran = headrace("validate", write("a.yaml", BAD))
    places = [line.split(":")[1] for line in ran.out.splitlines() if line.startswith("a.yaml:")]
    assert ran.status == 2
    assert places == ["8", "9", "11"]
    assert ran.err.startswith("a.yaml: 3 errors; checked ")


def test_several_files_are_counted_together(headrace: Headrace) -> None:
    files = (write("a.yaml", BAD), write("b.yaml", GOOD), write("c.yaml", DOUBTFUL), "d.yaml")
    ran = headrace("validate", *files)
    assert ran.status == 2
    assert "c.yaml:10:" in ran.out
    assert "warning" in ran.out
    assert "d.yaml: " in ran.out
    assert ran.err.startswith("4 files: 4 errors, 1 warning; checked 3 sources")


def test_of_several_files_the_one_is_named_that_an_argument_is_wrong_in(
    headrace: Headrace,
) -> None:
    files = (write("a.yaml", GOOD), write("b.yaml", GOOD))
    ran = headrace("validate", *files, "--set", "nam=x")
    assert "a.yaml: --set nam=x: " in ran.out
    assert "b.yaml: --set nam=x: " in ran.out


def test_a_warning_is_an_error_only_under_strict(headrace: Headrace) -> None:
    write("c.yaml", DOUBTFUL)
    assert headrace("validate", "c.yaml").status == 0
    ran = headrace("validate", "--strict", "c.yaml")
    assert ran.status == 2
    assert "warning" not in ran.out
    assert ran.err.startswith("c.yaml: 1 error; ")


def test_set_overrides_a_value_and_is_pointed_at(headrace: Headrace) -> None:
    write("a.yaml", GOOD)
    assert headrace("validate", "a.yaml", "--set", "steps.some.where=x = 1").status == 0
    ran = headrace("validate", "a.yaml", "--set", "steps.some.where=prise > 1")
    assert ran.status == 2
    assert "prise > 1\n" in ran.out
    assert '"prise"' in ran.out


def test_no_pipeline_is_a_wrong_command_line(headrace: Headrace) -> None:
    ran = headrace("validate")
    assert ran.status == 2
    assert "headrace validate: missing argument 'PIPELINE...'" in ran.err


@pytest.mark.parametrize("command", ["validate", "explain"])
@pytest.mark.parametrize("name", ["nowhere.yaml", ".", "locked.yaml", "\udcff.yaml", "x" * 300])
def test_a_file_that_cannot_be_read_is_named_with_the_reason(
    headrace: Headrace, command: str, name: str
) -> None:
    Path("locked.yaml").symlink_to("locked.yaml")
    ran = headrace(command, name)
    said = (ran.out + ran.err).splitlines()[0]
    assert ran.status == 2
    assert "defect" not in said
    assert "Errno" not in said


def test_the_json_schema_is_for_editors(headrace: Headrace) -> None:
    ran = headrace("schema")
    assert (ran.status, ran.err) == (0, "")
    schema = json.loads(ran.out)
    assert schema["$schema"].startswith("https://json-schema.org/")
    assert {"name", "sources", "steps", "sinks"} <= set(schema["properties"])


def test_explain_prints_nothing_but_the_plan(headrace: Headrace) -> None:
    ran = headrace("explain", write("a.yaml", GOOD))
    assert (ran.status, ran.err) == (0, "")
    assert ran.out.startswith("good: ")
    shown = json.loads(headrace("explain", "--format", "json", "a.yaml").out)
    assert shown["name"] == "good"
    assert headrace("explain", "--format", "mermaid", "a.yaml").out.startswith("flowchart")
    assert headrace("explain", "--format", "dot", "a.yaml").out.startswith("digraph")


def test_explain_of_a_wrong_pipeline_prints_no_half_a_plan(headrace: Headrace) -> None:
    ran = headrace("explain", write("a.yaml", BAD))
    assert (ran.status, ran.out) == (2, "")
    assert ran.err.startswith("a.yaml:8:")


def test_explain_prints_warnings_apart_from_the_plan(headrace: Headrace) -> None:
    ran = headrace("explain", write("c.yaml", DOUBTFUL))
    assert ran.status == 0
    assert "warning" in ran.err
    assert ran.out.startswith("good: ")
