"""The folders of `partition_by`: one for each value, and the value can be told from its name."""

from __future__ import annotations

import json
from pathlib import Path
from urllib.parse import unquote

import duckdb
from hypothesis import given
from hypothesis import strategies as st

from headrace.connectors.files.names import EMPTY_VALUE, NULL_VALUE, format_folder
from headrace.connectors.memory import InMemoryData
from tests.support.file_pipelines import run

SPECIAL = [None, "", NULL_VALUE, EMPTY_VALUE, "%5F_HIVE_DEFAULT_PARTITION__", "null", "%", "."]
VALUES = st.sampled_from(SPECIAL) | st.text(st.sampled_from("_%5FHé=/ \0")) | st.text()


def parse_value(folder: str) -> str | None:
    """Return the value of a folder `k=...`, as the page on files tells readers to."""
    text = folder.removeprefix("k=")
    return {NULL_VALUE: None, EMPTY_VALUE: ""}.get(text, unquote(text))


@given(VALUES)
def test_a_folder_name_parses_to_its_value(value: str | None) -> None:
    folder = format_folder("k", value)
    assert parse_value(folder) == value
    assert "/" not in folder and "\0" not in folder and not folder.endswith("=")


def test_values_that_look_alike_have_folders_of_their_own(tmp_path: Path) -> None:
    lines = [json.dumps({"id": id, "k": value}) for id, value in enumerate(SPECIAL)]
    (tmp_path / "in.jsonl").write_text("\n".join(lines))
    text = """
sources:
  s: {files: {path: in.jsonl}, schema: {id: bigint, k: string}}
sinks:
  o: {from: s, files: {path: out, partition_by: k}}
"""
    assert run(tmp_path, text, memory=InMemoryData()).failure is None
    found = {
        parse_value(part.parent.name): json.loads(part.read_text())["id"]
        for part in (tmp_path / "out").rglob("part-*")
    }
    assert found == {value: id for id, value in enumerate(SPECIAL)}
    read = f"read_json('{tmp_path}/out/**/*.jsonl', hive_partitioning=true)"
    with duckdb.connect() as database:
        rows = database.execute(f"SELECT id, k FROM {read} ORDER BY id").fetchall()
    assert dict(rows) == {
        id: EMPTY_VALUE if value == "" else value for id, value in enumerate(SPECIAL)
    }
