"""Raw lines: text or bytes, a row a line."""

from __future__ import annotations

import polars as pl
import pytest

from headrace.connectors.formats.raw import RawDecoder, RawEncoder
from headrace.core.api.sources import BadRecord
from tests.support.formats.decoding import schema

TEXT = RawDecoder(schema(value="string"))
BYTES = RawDecoder(schema(value="binary"))


@pytest.mark.parametrize(
    ("block", "texts"),
    [
        (b"", []),
        (b"a", ["a"]),
        (b"a\n", ["a"]),
        (b"a\r\nb\r\n", ["a", "b"]),
        (b"\n\na\n", ["", "", "a"]),
        (b'"a,b"\n{}\n', ['"a,b"', "{}"]),
        (b"\xef\xbb\xbfa\n", ["a"]),
        ("é\0😀\n".encode(), ["é\0😀"]),
        (b"a\rb\n", ["a\rb"]),
    ],
)
def test_lines_of_text(block: bytes, texts: list[str]) -> None:
    frame, bad = TEXT.decode(block, 0)
    assert (frame["value"].to_list(), bad) == (texts, ())
    assert frame.schema == {"value": pl.String}


def test_text_that_is_not_utf_8_is_bad() -> None:
    frame, bad = TEXT.decode(b"a\n\xff\r\nb\n\xfe", 10)
    assert frame["value"].to_list() == ["a", "b"]
    assert bad == (
        BadRecord("wanted UTF-8", 12, "\ufffd\r"),
        BadRecord("wanted UTF-8", 17, "\ufffd"),
    )


def test_bytes_are_not_changed() -> None:
    frame, bad = BYTES.decode(b"a\xff\r\n\n\x00", 1)
    assert (frame["value"].to_list(), bad) == ([b"a\xff\r", b"", b"\0"], ())


def test_no_column_is_rows_all_the_same() -> None:
    assert RawDecoder(schema()).decode(b"a\n\xff\n", 0)[0].shape == (2, 0)


def test_lines_are_written_as_they_are_and_null_as_an_empty_one() -> None:
    texts = ["a,b", 'q"', None, "", "é"]
    text = RawEncoder(schema(value="string")).encode(pl.DataFrame({"value": texts}))
    assert text == 'a,b\nq"\n\n\né\n'.encode()
    bytes = pl.DataFrame({"value": [b"\xff", None, b"\r"]})
    assert RawEncoder(schema(value="binary")).encode(bytes) == b"\xff\n\n\r\n"
    assert (RawEncoder(schema(value="string")).suffix, TEXT.has_header) == (".txt", False)
