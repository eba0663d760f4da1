"""The console: a head once, aligned lines, and nothing that garbles a terminal."""

from __future__ import annotations

import fcntl
import os
import pty
import struct
import subprocess
import sys
import termios
from collections.abc import Sequence
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path

import polars as pl
import pytest

from headrace.connectors.memory import InMemoryData
from headrace.connectors.text_table import TextTable
from headrace.core.types.data_types import Field, Schema, to_polars
from headrace.core.types.type_parser import parse_type
from tests.support.file_pipelines import run


def table(columns: dict[str, str], room: int | None = None) -> tuple[TextTable, dict[str, object]]:
    """A table over columns, and their types in Polars."""
    fields = tuple(Field(name, parse_type(text)[0]) for name, text in columns.items())
    types: dict[str, object] = {field.name: to_polars(field.type) for field in fields}
    return TextTable(Schema(fields), room), types


def shown(
    columns: dict[str, str], *batches: Sequence[tuple[object, ...]], room: int | None = None
) -> list[str]:
    """The lines of batches of rows."""
    made, types = table(columns, room)
    frames = [pl.DataFrame(rows, schema=types, orient="row") for rows in batches]  # type: ignore[arg-type]
    return "".join(made.format_rows(frame) for frame in frames).splitlines()


def test_the_head_stands_once_and_numbers_at_the_right() -> None:
    rows = [(1, "one", 1.5), (20, None, None)]
    assert shown(
        {"id": "bigint", "name": "string", "x": "double"}, rows, [(3, "three", -0.25)]
    ) == [
        "id  name     x",
        " 1  one    1.5",
        "20  null  null",
        " 3  three  -0.25",
    ]


def test_a_column_grows_with_its_values_and_never_shrinks() -> None:
    assert shown({"a": "string", "b": "int"}, [("x", 1)], [("longer", 2)], [("y", 3)]) == [
        "a  b",
        "x  1",
        "longer  2",
        "y       3",
    ]


def test_deletions_are_told_by_the_first_column() -> None:
    columns = {"k": "string", "n": "bigint", "_delete": "boolean"}
    assert shown(columns, [("a", 10, False), ("b", 2, False)], [("b", 2, True)]) == [
        "   k   n",
        "+  a  10",
        "+  b   2",
        "-  b   2",
    ]


def test_values_read_as_casts_to_text_show_them() -> None:
    columns = {
        "at": "timestamp",
        "d": "date",
        "p": "decimal(9,2)",
        "l": "array<int>",
        "s": "struct<a:int,b:string>",
        "b": "boolean",
    }
    at = datetime(2026, 1, 31, 8, 0, 0, 500_000, tzinfo=UTC)
    row = (at, at.date(), Decimal("1.50"), [1, None], {"a": 1, "b": "x\ty"}, True)
    assert shown(columns, [row]) == [
        "at                     d              p  l          s          b",
        r"2026-01-31 08:00:00.5  2026-01-31  1.50  [1, null]  {1, x\ty}  true",
    ]


def test_what_a_value_holds_moves_no_cursor() -> None:
    (_, line) = shown({"a": "string"}, [("a\nb\r\x1b[2J\x9b\u202e\x00",)])
    assert line == r"a\nb\r\x1b[2J\x9b\u202e\x00"
    assert shown({"a\nb": "int"}, [(1,)])[0] == r"a\nb"


def test_a_long_value_is_cut() -> None:
    assert shown({"a": "string", "b": "int"}, [("x" * 41, 1), ("x" * 40, 2)])[1:] == [
        "x" * 39 + "…  1",
        "x" * 40 + "  2",
    ]


def test_characters_of_two_cells_are_counted_as_two() -> None:
    lines = shown({"a": "string", "b": "int"}, [("日本", 1), ("abcd", 2), ("e\u0301", 3)])
    assert lines == ["a     b", "日本  1", "abcd  2", "e\u0301     3"]
    assert shown({"a": "string", "b": "int"}, [("日" * 25, 1)])[1] == "日" * 19 + "…   1"


def test_the_widest_columns_give_way_on_a_narrow_terminal() -> None:
    rows = [("x" * 30, "y" * 20, 1)]
    lines = shown({"a": "string", "b": "string", "c": "int"}, rows, room=30)
    assert lines[1] == "x" * 11 + "…  " + "y" * 12 + "…  1"
    assert max(map(len, lines)) == 30


PIPELINE = """
settings: {parallelism: 3}
sources:
  s: {memory: {data: in}, schema: {id: bigint}}
sinks:
  o: {from: s, console: }
"""


def test_all_subtasks_print_one_table(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    frames = [pl.DataFrame({"id": range(at * 50, at * 50 + 50)}) for at in range(6)]
    memory = InMemoryData(inputs={"in": {f"{at}": [frame] for at, frame in enumerate(frames)}})
    assert run(tmp_path, PIPELINE, memory=memory).failure is None
    head, *lines = capfd.readouterr().out.splitlines()
    assert head.strip() == "id"
    assert sorted(int(line) for line in lines) == list(range(300))


ON_TERMINAL = """
name: t
sources:
  s: {generate: {rows: 2, columns: {x: id, y: "repeat('ab', 50)"}}}
sinks:
  o: {from: s, console: }
"""


def test_a_terminal_gets_a_bold_head_and_lines_that_fit(tmp_path: Path) -> None:
    (tmp_path / "t.yaml").write_text(ON_TERMINAL)
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 20, 0, 0))
    environment = {
        key: value for key, value in os.environ.items() if key not in ("NO_COLOR", "COLUMNS")
    }
    command = [sys.executable, "-m", "headrace.cli", "run", "t.yaml", "--quiet"]
    subprocess.run(
        command, cwd=tmp_path, stdout=theirs, check=True, env={**environment, "TERM": "xterm"}
    )
    os.close(theirs)
    seen = os.read(ours, 4096).decode()
    os.close(ours)
    assert seen.split("\r\n") == [
        "\x1b[1mx  y\x1b[0m",
        f"0  {'ab' * 8}…",
        f"1  {'ab' * 8}…",
        "",
    ]
