"""The names of files in checkpoints: those that the source finds, and no others."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from headrace.connectors.files.patterns import find_matches
from headrace.connectors.files.stored_documents import is_read


@pytest.mark.parametrize(
    "path", ["in/*/../a1.jsonl", "in/*/../*.jsonl", "../*/in/a1.jsonl", "in/**/../a1.jsonl"]
)
def test_every_file_that_a_pattern_finds_can_be_resumed(tmp_path: Path, path: str) -> None:
    (tmp_path / "p" / "in" / "sub").mkdir(parents=True)
    (tmp_path / "p" / "in" / "a1.jsonl").write_text("{}\n")
    found = [*find_matches(str(tmp_path / "p"), path)]
    assert found
    for name in found:
        assert ".." in name.split(os.sep)
        assert is_read(path, name)


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("in/.*/a1.jsonl", "in/../a1.jsonl"),
        ("in/**", "in/../a1.jsonl"),
        ("in/*/../a1.jsonl", "in/../../a1.jsonl"),
        ("in/*/../a1.jsonl", "in/sub/../../a1.jsonl"),
        ("in", "in/../a1.jsonl"),
        ("../in", "../in/../a1.jsonl"),
    ],
)
def test_a_name_does_not_lead_out_of_the_path(path: str, name: str) -> None:
    assert not is_read(path, name)
