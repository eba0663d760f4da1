"""A files source that reads what a files sink of the same pipeline writes."""

from __future__ import annotations

from pathlib import Path

import pytest

from headrace.connectors.files.names import FORMAT_SUFFIXES
from headrace.connectors.formats.factories import build_encoder, build_parquet_encoder
from headrace.core.plan import nodes
from tests.support.plans import plan_of, said


def text_of(source: str, sink: str, more: str = "", name: str = "s") -> str:
    return f"""name: t
sources:
  a: {{files: {{{source}}}, schema: {{id: bigint, k: string}}}}
  b: {{stdin: {{}}, schema: {{id: bigint, k: string}}}}
steps:
  s: {{from: a, where: id > 1}}
  r: {{from: b, where: id > 1}}
sinks:
  p: {{from: s, console: {{}}}}
  q: {{from: r, console: {{}}}}
  o: {{from: {name}, files: {{{sink}}}{more}}}
"""


@pytest.mark.parametrize(
    ("source", "sink", "more", "found"),
    [
        # A folder, with those in it.
        ("path: out", "path: out", "", "out/part-*.jsonl"),
        ("path: out/", "path: ./out", "", "out/part-*.jsonl"),
        ("path: .", "path: deep/out", "", "deep/out/part-*.jsonl"),
        ("path: in/../out", "path: out", "", "out/part-*.jsonl"),
        ("path: out", "path: out, partition_by: k", "", "out/k=*/part-*.jsonl"),
        ("path: out/k=1", "path: out, partition_by: k", "", "out/k=*/part-*.jsonl"),
        ("path: out/k2=1", "path: out, partition_by: k", "", ""),
        ("path: in", "path: out", "", ""),
        ("path: out", "path: out2", "", ""),
        ("path: out/in", "path: out", "", ""),
        ("path: out", "path: out/_parts", "", ""),
        ("path: out", "path: out/.parts", "", ""),
        # Patterns.
        ("path: 'out/*.jsonl'", "path: out", "", "out/part-*.jsonl"),
        ("path: 'out/*.jsonl', watch: 1s", "path: out", "", "out/part-*.jsonl"),
        ("path: 'o*/p*-?-*'", "path: out", "", "out/part-*.jsonl"),
        ("path: '**/*.jsonl'", "path: deep/out", "", "deep/out/part-*.jsonl"),
        ("path: '**/*.jsonl'", "path: .", "", "./part-*.jsonl"),
        ("path: 'out/**'", "path: out, partition_by: k", "", "out/k=*/part-*.jsonl"),
        ("path: 'out/k=[12]/*'", "path: out, partition_by: k", "", "out/k=*/part-*.jsonl"),
        ("path: 'out/*.jsonl'", "path: out, partition_by: k", "", ""),
        ("path: 'out/in-*.jsonl'", "path: out", "", ""),
        ("path: 'out/[0-9]*.jsonl'", "path: out", "", ""),
        ("path: 'out/*/*.jsonl'", "path: out", "", ""),
        ("path: '*.jsonl'", "path: out", "", ""),
        ("path: 'out/*.csv'", "path: out", "", ""),
        # How the names end.
        ("path: 'out/*.csv'", "path: out", ", format: csv", "out/part-*.csv"),
        ("path: 'out/*.csv'", "path: out, compression: gzip", ", format: csv", ""),
        ("path: 'out/*.gz'", "path: out, compression: gzip", ", format: csv", "out/part-*.csv.gz"),
        ("path: 'out/*.parquet'", "path: out", ", format: parquet", "out/part-*.parquet"),
    ],
)
def test_what_would_come_in_again_is_refused(
    tmp_path: Path, source: str, sink: str, more: str, found: str
) -> None:
    text = text_of(source, sink, more)
    message = (
        f'11: sink "o": the source "a" reads what is written here: {found} '
        "[its own output would be read again: write somewhere else]"
    )
    assert said(tmp_path, text) == ([message] if found else [])


def test_an_absolute_path_is_the_place_it_names(tmp_path: Path) -> None:
    (line,) = said(tmp_path, text_of("path: 'out/*.jsonl'", f"path: {tmp_path}/out"))
    assert 'the source "a" reads what is written here' in line


def test_signs_of_a_pattern_in_the_pipelines_own_folder_are_plain(tmp_path: Path) -> None:
    folder = tmp_path / "[x]"
    folder.mkdir()
    assert len(said(folder, text_of("path: 'out/*'", "path: out"))) == 1


def test_output_of_other_rows_is_warned_of(tmp_path: Path) -> None:
    text = text_of("path: out", "path: out", name="r")
    assert said(tmp_path, text) == [
        '11: sink "o": the source "a" reads what is written here: out/part-*.jsonl '
        "[how much of it is read is undefined: let a step read r]"
    ]
    assert plan_of(tmp_path, text)


def test_a_loop_through_two_folders_is_refused(tmp_path: Path) -> None:
    text = """name: t
sources:
  a: {files: {path: one}, schema: {id: bigint}}
  b: {files: {path: two}, schema: {id: bigint}}
sinks:
  o: {from: a, files: {path: two}}
  p: {from: b, files: {path: one}}
"""
    again = "[its own output would be read again: write somewhere else]"
    assert [line.endswith(again) for line in said(tmp_path, text)] == [True, True]


def test_rejected_records_do_not_come_in_again(tmp_path: Path) -> None:
    text = """name: t
sources:
  a: {files: {path: in}, schema: {id: bigint}, on_error: {to: bad}}
sinks:
  o: {from: a, console: {}}
  p: {from: bad, files: {path: in/bad}}
"""
    (line,) = said(tmp_path, text)
    assert line.startswith('6: sink "p": the source "a" reads what is written here')


@pytest.mark.parametrize("name", FORMAT_SUFFIXES)
def test_parts_are_called_as_their_format_says(tmp_path: Path, name: str) -> None:
    text = f"""name: t
sources:
  a: {{stdin: {{}}, format: raw}}
sinks:
  o: {{from: a, files: {{path: out}}, format: {name}}}
"""
    plan = plan_of(tmp_path, text)
    sink, schema = plan.part("o"), plan.streams["a"].schema
    assert isinstance(sink, nodes.Sink)
    made = build_parquet_encoder(schema) if name == "parquet" else build_encoder(sink, schema)
    assert made.suffix == FORMAT_SUFFIXES[name]
