"""Problems of a file before YAML reads it."""

from pathlib import Path

import pytest

from headrace.core.errors.rendering import render_problem
from headrace.core.pipeline.yaml_document.source_file import (
    MAX_BYTES,
    MAX_TESTED_BYTES,
    read_source_file,
)
from tests.support.pipeline.broken_documents import said


@pytest.fixture(autouse=True)
def in_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def problem(path: str) -> str:
    """Return the problem of a file that cannot be read."""
    file, problems = read_source_file(path)
    assert file is None
    return "\n".join(map(render_problem, problems))


def test_a_missing_file_is_looked_for_among_its_neighbours() -> None:
    Path("orders.yaml").write_text("")
    hint = '      did you mean "orders.yaml"?'
    assert problem("order.yaml") == f"order.yaml: there is no such file\n{hint}"
    assert problem("x.yaml") == "x.yaml: there is no such file\n      there is orders.yaml"
    for other in "abc":
        Path(f"{other * 9}.yaml").write_text("")
    assert problem("x.yaml") == "x.yaml: there is no such file"


def test_a_missing_folder_is_named() -> None:
    Path("file").write_text("")
    hint = '      there is no folder "gone"'
    assert problem("gone/a.yaml") == f"gone/a.yaml: there is no such file\n{hint}"
    assert problem("file/a.yaml").startswith("file/a.yaml: there is no such file")


def test_a_folder_is_no_file() -> None:
    Path("in").mkdir()
    assert problem("in") == "in: this is a folder, wanted a pipeline's file"
    Path("in/demo.yaml").write_text("")
    assert 'did you mean "in/demo.yaml"?' in problem("in")


def test_a_file_that_cannot_be_opened_says_why() -> None:
    Path("loop.yaml").symlink_to("loop.yaml")
    assert problem("loop.yaml") == (
        "loop.yaml: the file cannot be read: too many levels of symbolic links"
    )
    assert problem("a\0b.yaml").startswith(r"a\x00b.yaml: there is no such file")
    assert "file name too long" in problem("x" * 5000)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"\x7fELF\x02\x01\x01\0\0", "this is not a text file: byte 0x7f at offset 0"),
        (b"name: a\n\0\0", "this is not a text file: byte 0x00 at offset 8"),
        (b"\x1f\x8b\x08\0\xff\xfe", "this is not a text file: byte 0x1f at offset 0"),
        (b"\xff\xfen\0a\0", "the file is UTF-16, wanted UTF-8"),
        (b" " * (MAX_BYTES + 1), "the file is larger than 1024 KB"),
        (b"", "the file is empty"),
        (b"\xef\xbb\xbf", "the file is empty"),
        (b"  \r\n\n", "the file is empty"),
        (b"# nothing yet\n", "there are only comments in the file"),
        (b"---\n", "there is nothing in the file"),
    ],
)
def test_what_is_no_pipeline_at_all(content: bytes, message: str) -> None:
    assert said(content).splitlines()[0] == f"p.yaml: {message}"


def test_a_file_in_another_encoding_shows_the_place() -> None:
    assert said("name: café\n".encode("latin-1")).splitlines() == [
        "p.yaml:1:10: this is not UTF-8: byte 0xe9 at offset 9",
        "    1 | name: caf\ufffd",
        "      |          ^ save it as UTF-8",
        "names lost",
    ]


@pytest.mark.parametrize("character", ["\x07", "\x7f", "\x85", "\u2028", "\ufeff", "\u200b"])
def test_a_character_that_nobody_sees_is_shown(character: str) -> None:
    shown = said(f"name: a\nsteps: x{character}y\n").splitlines()[0]
    assert shown == f"p.yaml:2:9: an invisible character (U+{ord(character):04X}) is here"


def test_lines_are_counted_as_editors_count_them() -> None:
    for end in ("\n", "\r\n", "\r"):
        text = f"\ufeffname: a{end}{end}stepz: 1{end}"
        assert "p.yaml:3:1: unknown key" in said(text)


def test_tests_do_not_count_towards_the_size_of_a_file(tmp_path: Path) -> None:
    path = tmp_path / "p.yaml"
    tests = b"tests:\n- name: a\n\n# " + b"x" * MAX_BYTES + b"\n  given: []\n"
    path.write_bytes(b"name: p\n" + tests + b"sources: {}\n")
    file, problems = read_source_file(path)
    assert file is not None and not problems
    path.write_bytes(b"name: p\n" + tests + b"sources: {}\n" + b" " * MAX_BYTES)
    assert read_source_file(path)[1][0].message == "the file is larger than 1024 KB"
    path.write_bytes(b"tests:\n" + b" " * MAX_TESTED_BYTES)
    assert read_source_file(path)[1][0].message == "the file is larger than 16 MB"
