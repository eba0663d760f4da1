"""The pages say what is so: the generated ones, and the output of every command in the others.

Pages with commands on Spark are compared in tests/core/spark/test_page_commands.py.
"""

import re
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from docs.snippets import ROOT, pages, refreshed, refusal
from docs.write import DOCS, PAGES, page
from headrace.cli.main import headrace
from headrace.state.storage import names
from tests.support.cli.page_commands import list_pages, run_page_command

LINK = re.compile(r"\]\((?!https?://|#)([^)#]+)")
LINK_TO_HEADING = re.compile(r"\]\((?!https?://)([^)#]*[.]md)?#([^)]+)\)")


@pytest.mark.parametrize("name", PAGES)
def test_a_generated_page_is_current(name: str) -> None:
    assert (DOCS / name).read_text("utf-8") == page(name), "run: make docs"


@pytest.mark.parametrize("path", list_pages(on_spark=False), ids=lambda path: path.name)
def test_the_commands_of_a_page_print_what_it_says(path: Path) -> None:
    text = path.read_text("utf-8")
    assert refreshed(text, run_page_command) == text, "run: make docs"


@pytest.mark.parametrize("path", pages(), ids=lambda path: path.name)
def test_links_lead_somewhere(path: Path) -> None:
    for target in LINK.findall(path.read_text("utf-8")):
        assert (path.parent / target).exists(), f"{path.name} links to {target}"


def anchors(path: Path) -> set[str]:
    """What links to the headings of a page end in, as GitHub makes it from their text."""
    text = re.sub(r"^```.*?^```", "", path.read_text("utf-8"), flags=re.MULTILINE | re.DOTALL)
    headings = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("path", pages(), ids=lambda path: path.name)
def test_links_to_headings_lead_there(path: Path) -> None:
    for target, anchor in LINK_TO_HEADING.findall(path.read_text("utf-8")):
        assert anchor in anchors(path.parent / target if target else path), f"{target}#{anchor}"


def test_the_files_to_change_exist() -> None:
    rows = (DOCS / "architecture.md").read_text("utf-8").partition("## Where do I change")[2]
    files = re.findall(r"`([a-z]+/[^`]+[.][a-z]+)`", rows)
    assert len(files) > 30
    assert not [file for file in files if not (ROOT / file).exists()]


def test_every_file_of_a_home_is_on_its_page() -> None:
    tree = (DOCS / "snapshots.md").read_text("utf-8").partition("```text\n")[2].partition("```")[0]
    constants = {name: value for name, value in vars(names).items() if name.isupper()}
    del constants["SAVEPOINT"], constants["TEMPORARY_SUFFIX"]  # no files of a home
    files = [value for value in constants.values() if isinstance(value, str)]
    assert names.NOTES in files and names.LOCATION in files
    assert not [file for file in files if file not in tree]


def test_pages_are_not_written_where_there_is_no_headrace(tmp_path: Path) -> None:
    why = refusal(str(tmp_path))
    assert why and why.startswith("wanted the command headrace ")
    (tmp_path / "headrace").touch(mode=0o755)
    assert refusal(str(tmp_path)) is None


def test_the_readme_leads_to_every_page() -> None:
    text = (ROOT / "README.md").read_text("utf-8")
    assert not [path.name for path in DOCS.glob("*.md") if f"](docs/{path.name})" not in text]


def commands(group: click.Group, path: str) -> Iterator[tuple[str, click.Command]]:
    """All commands by the words that call them."""
    for name, command in group.commands.items():
        yield f"{path} {name}", command
        if isinstance(command, click.Group):
            yield from commands(command, f"{path} {name}")


def test_every_command_and_option_is_on_its_page() -> None:
    text = page("cli.md")
    for path, command in commands(headrace, "headrace"):
        assert f"## {path}\n" in text
        shown = [p for p in command.params if not getattr(p, "hidden", False)]
        for option in (option for p in shown for option in p.opts if option[0] == "-"):
            assert option in text


def test_every_make_target_of_the_readme_is_there() -> None:
    targets = re.findall(r"^make ([\w-]+)", (ROOT / "README.md").read_text("utf-8"), re.MULTILINE)
    makefile = (ROOT / "Makefile").read_text("utf-8")
    assert targets == ["demo", "demo-kafka", "test"]
    assert all(re.search(rf"^{target}:", makefile, re.MULTILINE) for target in targets)


def test_every_benchmark_is_in_the_table() -> None:
    table = (ROOT / "benchmarks" / "README.md").read_text("utf-8")
    paths = (ROOT / "benchmarks").glob("*.py")
    scripts = [path.stem for path in paths if "def main(" in path.read_text("utf-8")]
    assert scripts
    assert all(re.search(rf"^\| `{name}\b", table, re.MULTILINE) for name in scripts)
