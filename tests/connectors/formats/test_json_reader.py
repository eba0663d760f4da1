"""Assumptions about Polars: it makes a row of each line that is not blank, or raises.

Lines are not counted, so a row too few or too many would give records the values of others.
"""

from __future__ import annotations

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from polars.exceptions import PolarsError

from headrace.connectors.formats.json_reader import read_lines
from headrace.connectors.formats.lines import BLANK

TYPES: dict[str, pl.DataType] = {"a": pl.Int64(), "b": pl.String()}

PIECES = (
    *(b'{"a":1}', b'{"b":"x"}', b"{}", b'{"b":"\\n"}', b'{"b":"', b'"}', b"{", b"}", b"[", b"]"),
    *(
        b"\n",
        b"\n",
        b"\n\n",
        b"\r",
        b"\r\n",
        b" ",
        b"\t",
        b"\\",
        b'"',
        b",",
        b"null",
        b"1",
        b"\x00",
    ),
    *(b"\x0b", b"\x0c", b"\x1c", b"\x1e", b"\x85", b"\xa0", b"\xc2\x85", b"\xe2\x80\xa8"),
    *(b"\xef\xbb\xbf", b"//", b"#"),
)


def rows(block: bytes) -> int | None:
    """Count the rows that Polars makes; None if it raises."""
    try:
        return read_lines(block, TYPES).height
    except PolarsError:
        return None


def records(block: bytes) -> int:
    return sum(bool(line.strip(BLANK)) for line in block.split(b"\n"))


@pytest.mark.parametrize("line", [bytes([byte]) for byte in range(256)])
@pytest.mark.parametrize("form", [b"%b", b" %b\t", b'{"a":1}%b', b'%b{"a":1}', b'{"b":"%b"}'])
def test_any_byte_makes_a_row_or_an_error_or_is_blank(line: bytes, form: bytes) -> None:
    block = b'{"a":1}\n%b\n{"a":3}\n' % (form % line)
    assert rows(block) in (None, records(block))


@settings(max_examples=200, deadline=None)
@given(st.lists(st.sampled_from(PIECES), max_size=10), st.integers(0, 2))
def test_rows_are_as_many_as_records(pieces: list[bytes], others: int) -> None:
    block = b'{"a":1}\n' * others + b"".join(pieces) + b'\n{"a":2}' * others
    assert rows(block) in (None, records(block))


@settings(max_examples=20, deadline=None)
@given(st.integers(1, 30_000), st.integers(0, 200), st.lists(st.integers(0, 29_999), max_size=9))
def test_rows_of_a_large_block_are_as_many_as_records(
    count: int, width: int, blank: list[int]
) -> None:
    lines = [b'{"a":%d,"b":"%b"}' % (row, b"x" * (row * 7 % (width + 1))) for row in range(count)]
    for row in blank:
        lines.insert(row, (b"", b" ", b"\r", b"\t \r")[row % 4])
    block = b"\n".join(lines)
    frame = read_lines(block, TYPES)
    assert frame["a"].to_list() == list(range(count))
