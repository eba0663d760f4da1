"""Blocks of JSON lines: line ends, blank lines, marks, positions, and errors of bad records."""

from __future__ import annotations

import gzip
import pickle
import zlib
from collections.abc import Callable

import polars as pl
import pytest

from headrace.connectors.formats.json_decode import JsonDecoder
from headrace.core.api.sources import BadRecord
from tests.support.file_pipelines import PACK
from tests.support.formats.decoding import decoded, empty, schema

ONE = JsonDecoder(schema(a="bigint", b="string"))


@pytest.mark.parametrize(
    "block",
    [
        b'{"a":1}\n{"a":2}\n',
        b'{"a":1}\n{"a":2}',
        b'{"a":1}\r\n{"a":2}\r\n',
        b'\n\n{"a":1}\n \t\r\n{"a":2}\n\n',
        b'  {"a" : 1 }\t\n\t{ "a":2 } ',
        b'\xef\xbb\xbf{"a":1}\n{"a":2}\n',
    ],
)
def test_lines_however_they_end(block: bytes) -> None:
    frame, bad = ONE.decode(block, 0)
    assert (frame["a"].to_list(), bad) == ([1, 2], ())


@pytest.mark.parametrize("block", [b"", b"\n", b" \r\n\t\n", b"\xef\xbb\xbf"])
def test_a_block_without_a_record_is_no_rows(block: bytes) -> None:
    frame, bad = ONE.decode(block, 0)
    assert frame.equals(empty(ONE.schema)) and frame.schema == empty(ONE.schema).schema
    assert not bad


def test_a_byte_order_mark_is_one_only_at_the_start_of_a_split() -> None:
    assert ONE.decode(b'\xef\xbb\xbf{"a":1}', 0)[1] == ()
    assert len(ONE.decode(b'\xef\xbb\xbf{"a":1}', 9)[1]) == 1


def test_a_bad_record_has_its_first_byte_and_its_text() -> None:
    block = b'{"a":1}\n\n{"a":"\xff"}\r\n{"a":3}\n{"a":4.0}'
    frame, bad = ONE.decode(block, 1000)
    assert frame["a"].to_list() == [1, 3]
    assert [(record.position, record.raw) for record in bad] == [
        (1009, '{"a":"\ufffd"}'),
        (1028, '{"a":4.0}'),
    ]


@pytest.mark.parametrize(
    ("record", "error"),
    [
        (b'{"a":"x"}', 'column "a": wanted bigint, got "x"'),
        (b'{"a":1.0}', 'column "a": wanted bigint, got 1.0'),
        (b"[1]", "wanted a JSON object, got [1]"),
        (b"null", "wanted a JSON object, got null"),
        (b"a,b", "wanted a JSON object: expecting value at character 0"),
        (b'{"a":NO}', "wanted a JSON object: expecting value at character 5"),
        (b'{"a":"x', "wanted a JSON object: unterminated string at character 5"),
        (b'{"a":"\t"}', "wanted a JSON object: invalid control character at character 6"),
        (b'{"a":1', "wanted a JSON object: it does not end on its line"),
        (b"{ ", "wanted a JSON object: it does not end on its line"),
        (
            b'[{"a":1},',
            "wanted a JSON object: an array begins here; objects are read one per line",
        ),
        (
            b"\x1f\x8b\x08",
            "wanted a JSON object: this is gzip, which is read if the file's name ends in .gz",
        ),
        (b"\xff\xfe{\0", "wanted a JSON object: this is UTF-16, wanted UTF-8"),
        (b'{"a":1}{"a":2}', "wanted a JSON object: extra data at character 7"),
        (b'{"b":"\\ud83d"}', "wanted a JSON object: a text has half of a surrogate pair"),
        (b'{"b":"\xff"}', "wanted a JSON object: it is not UTF-8"),
        (b'{"z":%b' % (b"[" * 100_000), "wanted a JSON object: it is nested too deep"),
        (b'{"b":1e999}', "wanted a JSON object: something in it is out of range"),
    ],
)
def test_bad_records_have_error_and_raw_text(record: bytes, error: str) -> None:
    assert ONE.decode(record, 0)[1] == (BadRecord(error, 0, record.decode("utf-8", "replace")),)


@pytest.mark.parametrize("pack", [gzip.compress, zlib.compress, PACK[".zst"]])
@pytest.mark.parametrize("cut", [None, 40])
def test_what_is_compressed_is_not_unpacked(
    pack: Callable[[bytes], bytes], cut: int | None
) -> None:
    block = pack(b"".join(b'{"a":%d}\n' % at for at in range(1000)))[:cut] + b'\n{"a":1}\n'
    frame, bad = ONE.decode(block, 0)
    assert frame["a"].to_list() == [1]
    assert bad[0].raw == block.split(b"\n")[0].decode("utf-8", "replace")


def test_a_long_value_is_shortened_in_the_error() -> None:
    (bad,) = ONE.decode(b'{"a":"%b"}' % (b"x" * 1000), 0)[1]
    assert len(bad.error) < 120
    assert len(bad.raw) == 1008


def test_unknown_fields_are_ignored_and_columns_come_in_order() -> None:
    decoder = JsonDecoder(schema(b="string", a="bigint"))
    frame, bad = decoder.decode(b'{"z":{"a":[1]},"a":1,"y":null,"b":"x"}', 0)
    assert (frame.rows(named=True), bad) == ([{"b": "x", "a": 1}], ())


def test_a_field_that_nobody_needs_is_not_checked() -> None:
    frame, bad = JsonDecoder(schema(b="string")).decode(b'{"a":"no bigint","b":"x"}', 0)
    assert (frame["b"].to_list(), bad) == (["x"], ())


def test_of_a_field_that_stands_twice_the_first_counts() -> None:
    frame, bad = ONE.decode(b'{"a":1,"a":2}\n{"a":1,"a":"x"}\n{"a":null,"a":1}', 0)
    assert (frame["a"].to_list(), bad) == ([1, 1, None], ())


def test_names_are_compared_as_they_are() -> None:
    decoder = JsonDecoder(schema(**{"é": "bigint", "A b.c": "bigint"}))
    frame, _ = decoder.decode(b'{"\\u00e9":1,"A b.c":2,"a b.c":3}', 0)
    assert frame.rows() == [(1, 2)]


def test_no_column_is_rows_all_the_same() -> None:
    frame, bad = JsonDecoder(schema()).decode(b'{"a":1}\n{}\nx\n{"":{"b":1}}\n', 0)
    assert frame.shape == (3, 0)
    assert [record.position for record in bad] == [11]


def test_a_record_of_ten_megabytes() -> None:
    text = b"x" * 10_000_000
    frame, bad = ONE.decode(b'{"a":1,"b":"%b"}\n{"a":2}\n' % text, 0)
    assert not bad
    assert frame["b"].str.len_bytes().to_list() == [10_000_000, None]


@pytest.mark.parametrize(("depth", "good"), [(1000, True), (1100, False), (100_000, False)])
def test_nesting_has_a_limit(depth: int, good: bool) -> None:
    block = b'{"z":%b%b,"a":1}\n{"a":2}' % (b"[" * depth, b"]" * depth)
    frame, bad = ONE.decode(block, 0)
    assert frame["a"].to_list() == ([1, 2] if good else [2])
    assert len(bad) == (not good)


def test_a_cut_is_after_the_last_line_end() -> None:
    assert [ONE.find_cut(data) for data in (b"", b"a", b"a\n", b"a\nb", b"a\n\n")] == [
        0,
        0,
        2,
        2,
        3,
    ]


def test_many_bad_records_among_good_ones() -> None:
    good, syntax, type = b'{"a":1,"b":"x"}\n', b'{"a":1,\n', b'{"a":"x"}\n'
    block = (good * 97 + syntax + good + type) * 20
    frame, bad = ONE.decode(block, 0)
    assert frame.equals(pl.DataFrame({"a": [1] * 1960, "b": ["x"] * 1960}))
    assert len(bad) == 40
    for record in bad:
        assert isinstance(record.position, int)
        assert block[record.position :].startswith(record.raw.encode())


def test_bad_blocks_do_not_affect_the_next() -> None:
    blocks = [b'{"a":"x"}\n', b'{"a":1}\n', b'{"a":2}\n{"a":']
    frame, bad = decoded(ONE, blocks)
    assert frame["a"].to_list() == [1, 2]
    assert [record.position for record in bad] == [0, 26]


def test_a_decoder_can_be_pickled() -> None:
    decoder = JsonDecoder(schema(a="decimal(10,2)", b="timestamp not null"), "ms")
    again = pickle.loads(pickle.dumps(decoder))
    block = b'{"a":1.5,"b":1}\n{"a":1}'
    assert again == decoder
    assert again.decode(block, 0)[0].equals(decoder.decode(block, 0)[0])
    assert (again.has_header, again.with_header(b"x")) == (False, again)


@pytest.mark.parametrize(
    "record",
    [
        b'{"d":1,"g":{"z":["\xed\xa0\x80"]}}',
        b'{"d":"\x90"}',
        b'{"\xff":1,"d":"x"}',
        b'{"d":1.5,"d":"\xff"}',
        b'{"g":{"z":["\\ud83d"]}}',
        b'{"g":%b1%b}' % (b"[" * 1000, b"]" * 1000),
        b'{"d":%b}' % (b"9" * 400),
        b'{"d":1e99999999999999999999}',
        b'{"d":-}',
        b'{"d":1 2}',
    ],
)
def test_nothing_in_a_record_raises(record: bytes) -> None:
    decoder = JsonDecoder(schema(d="decimal(10,2)", g="struct<z:array<binary>>"))
    frame, bad = decoder.decode(b'{"d":1}\n' + record + b"\n{}", 0)
    assert (frame["d"].to_list(), len(bad)) == ([1, None], 1)
