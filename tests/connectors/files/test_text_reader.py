"""Blocks of any size hold the same records: the rows, what is bad, and where it stands."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest

from headrace.core.api.splits import Split
from tests.support.file_pipelines import PACK, chunks, source_of, values


@dataclass(frozen=True, slots=True)
class Text:
    """A file's text, and what is in it."""

    format: str
    schema: str
    data: bytes
    rows: list[tuple[object, ...]]
    bad: tuple[bytes, ...]
    """The beginnings of the bad records: each stands in the text once."""


MARK = b"\xef\xbb\xbf"
TEXTS = {
    "json": Text(
        "json",
        "{id: bigint, name: string}",
        MARK
        + b'{"id": 1, "name": "zo\xc3\xab"}\n\n  \r\nnot json\n{"id": 2}\r\n{"id": "three"}\n'
        + b'{"id": 4, "name": "\xff"}\n{"name": "%s"}\n\n[5]\n{"id": 6}' % (b"x" * 70),
        [(1, "zoë"), (2, None), (None, "x" * 70), (6, None)],
        (b"not json", b'{"id": "three"', b'{"id": 4', b"[5]"),
    ),
    "csv": Text(
        "csv",
        "{id: bigint, name: string}",
        MARK
        + b'name,id\n"zo\xc3\xab, ""a""\nb",1\r\n,2\n3\n"",4\n"five,5\n"\nx,six\n\xff,7\n\n'
        + b'"%s\n\n",8\nlast,9' % (b"y" * 70),
        [(1, 'zoë, "a"\nb'), (2, None), (4, ""), (8, "y" * 70 + "\n\n"), (9, "last")],
        (b"3\n", b'"five', b"x,six", b"\xff"),
    ),
    "csv, never closed": Text(
        "csv", "{id: bigint, name: string}", b'id,name\n1,a\n2,"b\n3,c\n', [(1, "a")], (b'2,"',)
    ),
    "raw": Text(
        "raw",
        "{line: string}",
        b"a\n\nb\r\n\xff\nlast",
        [(s,) for s in ("a", "", "b", "last")],
        (b"\xff",),
    ),
}


def sizes(length: int) -> list[int]:
    """Every size up to the longest record, then some, and one that holds everything."""
    return [*range(1, 90), *range(90, length, 23), length, length + 1]


@pytest.mark.parametrize("suffix", PACK)
@pytest.mark.parametrize("name", TEXTS)
def test_a_block_of_any_size_gives_the_same_records(tmp_path: Path, name: str, suffix: str) -> None:
    text = TEXTS[name]
    (tmp_path / f"a{suffix}").write_bytes(PACK[suffix](text.data))
    more = f"format: {text.format}, on_error: skip, schema: {text.schema}"
    truth = [text.data.index(record) for record in text.bad]
    for size in sizes(len(text.data)) if not suffix else (1, 2, 3, 10, 33, 100, 1000):
        _, reader = source_of(tmp_path, f"{{files: {{path: a{suffix}}}, {more}}}", block=size)
        found = chunks(reader, Split("s", f"a{suffix}"))
        bad = [one for chunk in found for one in chunk.bad_records]
        assert values(found) == text.rows, size
        assert [one.position for one in bad] == truth, size
        for one, start in zip(bad, text.bad, strict=True):
            assert one.raw.startswith(start.strip().decode("utf-8", "replace")), size
        assert found[-1].position == len(text.data)
