"""CSV: fields, quotes, headers, values, what is bad, and that rows read back as they were."""

from __future__ import annotations

import csv
import io
import math
import pickle
from dataclasses import replace
from datetime import UTC, date, datetime, time
from decimal import Decimal

import polars as pl
import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from headrace.connectors.formats.csv_decode import CsvDecoder
from headrace.connectors.formats.csv_encode import CsvEncoder
from headrace.connectors.formats.csv_syntax import CsvSyntax
from headrace.core.api.failures import ConnectorError
from headrace.core.types.data_types import STRING, Field, Schema
from tests.support.formats.decoding import cuts, decoded, schema
from tests.support.formats.random_frames import atoms, frame, frames

BAD = object()

ABC = schema(a="string", b="string", c="string")
THREE = CsvDecoder(ABC, ABC, ABC.names)


@pytest.mark.parametrize(
    ("record", "fields"),
    [
        (b"a,b,c", ("a", "b", "c")),
        (b"a,,c", ("a", None, "c")),
        (b",,", (None, None, None)),
        (b'"",,""', ("", None, "")),
        (b'"a,b","c\nd","e\r\nf"', ("a,b", "c\nd", "e\r\nf")),
        (b'"a""b","""","\'"', ('a"b', '"', "'")),
        (b" a , b,c ", (" a ", " b", "c ")),
        (b"a\rb,\t,#", ("a\rb", "\t", "#")),
        ("é,😀,\0".encode(), ("é", "😀", "\0")),
        (b"a,b", "wanted 3 fields, got 2"),
        (b"a,b,c,d", "wanted 3 fields, got 4"),
        (b"a", "wanted 3 fields, got 1"),
        (b" ", "wanted 3 fields, got 1"),
        (b'a,b"c,d', "a quote is out of place: within a quoted field it is doubled"),
        (b'a,"b"c,d', "a quote is out of place: within a quoted field it is doubled"),
        (b'a, "b",c', "a quote is out of place: within a quoted field it is doubled"),
        (b'a,"b\\"x",c', "a quote is out of place: within a quoted field it is doubled"),
        (b'a,b,"c', "a quote is out of place: within a quoted field it is doubled"),
        (b"a,\xff,c", "wanted UTF-8"),
    ],
)
@pytest.mark.parametrize("end", [b"", b"\n", b"\r\n"])
def test_the_fields_of_a_record(record: bytes, end: bytes, fields: object) -> None:
    frame, bad = THREE.decode(record + end, 0)
    if isinstance(fields, str):
        assert not frame.height
        assert [fault.error for fault in bad] == [fields]
    else:
        assert (frame.rows(), bad) == ([fields], ())


@pytest.mark.parametrize("end", [b"\n", b"\r\n"])
def test_a_wrong_quote_spoils_one_line(end: bytes) -> None:
    lines = [b"a,b,c", b'5" disk,b,c', b'"x" y,b,c', b'd,"e",f', b""]
    frame, bad = THREE.decode(end.join(lines), 100)
    assert frame.rows() == [("a", "b", "c"), ("d", "e", "f")]
    starts = [100 + len(lines[0] + end), 100 + len(lines[0] + end + lines[1] + end)]
    assert [(fault.position, fault.raw.encode()) for fault in bad] == [
        (starts[0], lines[1]),
        (starts[1], lines[2]),
    ]


def test_blank_lines_are_skipped_but_in_a_single_column_are_null() -> None:
    assert THREE.decode(b"\na,b,c\n\r\n\nd,e,f\n\n", 0)[0].height == 2
    one = schema(a="string")
    frame, bad = CsvDecoder(one, one, one.names).decode(b'a\n\n""\n\r\nb', 0)
    assert (frame["a"].to_list(), bad) == (["a", None, "", None, "b"], ())


@pytest.mark.parametrize("block", [b"", b"\n", b"\r\n", b"\xef\xbb\xbf"])
def test_a_block_without_a_record_is_no_rows(block: bytes) -> None:
    frame, bad = THREE.decode(block, 0)
    assert (frame.shape, bad) == ((0, 3), ())


VALUES: list[tuple[str, str, object]] = [
    ("boolean", "true", True),
    ("boolean", "FALSE", False),
    ("boolean", "1", BAD),
    ("tinyint", "-128", -128),
    ("tinyint", "128", BAD),
    ("bigint", "+007", 7),
    ("bigint", "9223372036854775808", BAD),
    ("bigint", "1.0", BAD),
    ("bigint", " 1", BAD),
    ("bigint", "1_000", BAD),
    ("bigint", "0x1", BAD),
    ("double", "1", 1.0),
    ("double", "-1.5e3", -1500.0),
    ("double", ".5", 0.5),
    ("double", "5.", 5.0),
    ("double", "NaN", math.nan),
    ("double", "-Infinity", -math.inf),
    ("double", "inf", BAD),
    ("double", "nan", BAD),
    ("double", "1e999", BAD),
    ("double", "1d", BAD),
    ("float", "1e39", BAD),
    ("float", "0.5", 0.5),
    ("decimal(10,2)", "1.005", Decimal("1.01")),
    ("decimal(10,2)", "-1e2", Decimal("-100.00")),
    ("decimal(10,2)", "1e9", BAD),
    ("decimal(10,2)", "NaN", BAD),
    ("decimal(10,2)", "+.5", Decimal("0.50")),
    ("decimal(38,0)", "9" * 38, Decimal("9" * 38)),
    ("date", "2026-01-31", date(2026, 1, 31)),
    ("date", "31.01.2026", BAD),
    ("timestamp", "2026-01-31 08:00:00.5", datetime(2026, 1, 31, 8, 0, 0, 500_000, UTC)),
    ("timestamp", "1769846400", BAD),
    ("timestamp_ntz", "2026-01-31 08:00:00.5", datetime(2026, 1, 31, 8, 0, 0, 500_000)),
    ("timestamp_ntz", "2026-01-31 08:00:00Z", BAD),
    ("time(3)", "08:07:06.55555", time(8, 7, 6, 555_000)),
    ("time(6)", "08:60", BAD),
    ("binary", "aGk=", b"hi"),
    ("binary", "a", BAD),
    ("string", "NaN", "NaN"),
]


@pytest.mark.parametrize(("type", "text", "value"), VALUES)
@pytest.mark.parametrize("quote", ["", '"'])
def test_a_value_of_a_type(type: str, text: str, value: object, quote: str) -> None:
    columns = schema(a=type)
    decoder = CsvDecoder(columns, columns, columns.names)
    frame, bad = decoder.decode(f"{quote}{text}{quote}\n\n".encode(), 0)
    values = frame["a"].to_list()
    if value is BAD:
        assert values == [None]
        assert [fault.error for fault in bad] == [f'column "a": wanted {type}, got "{text}"']
    else:
        assert (repr(values[0]) == repr(value) or values[0] == value, bad) == (True, ())


@pytest.mark.parametrize("sign", [b"x^", b"x\x01", b"\x28\xb5"])
def test_a_field_may_begin_as_compressed_data_does(sign: bytes) -> None:
    columns = schema(a="string", b="bigint")
    frame, bad = CsvDecoder(columns, columns, columns.names).decode(sign + b"a,1\nb,2\n", 0)
    good = sign != b"\x28\xb5"
    assert frame["b"].to_list() == ([1, 2] if good else [2])
    assert len(bad) == (not good)


def test_an_empty_field_is_bad_where_null_must_not_be() -> None:
    columns = schema(a="string not null", b="bigint")
    decoder = CsvDecoder(columns, columns, columns.names)
    frame, bad = decoder.decode(b'"",1\n,2\nx,3', 0)
    assert frame.rows() == [("", 1), ("x", 3)]
    assert [(fault.position, fault.error) for fault in bad] == [
        (5, 'column "a": wanted string not null, got null')
    ]


def header(text: bytes, **types: str) -> CsvDecoder:
    return CsvDecoder(schema(**types), schema(**types)).with_header(text)


def test_a_header_gives_the_order_and_may_have_more() -> None:
    decoder = header(b'\xef\xbb\xbfx,"b",y,a\r\n', a="bigint", b="string")
    frame, bad = decoder.decode(b"1,2,3,4\r\n", 20)
    assert (frame.rows(named=True), bad) == ([{"a": 4, "b": "2"}], ())


@pytest.mark.parametrize(
    ("text", "message", "hint"),
    [
        (b"a,c\n", 'the CSV header has no column "b"', "it has a, c"),
        (b"a,B\n", 'the CSV header has no column "b"', 'did you mean "B"?'),
        (b"a,b,a\n", 'the CSV header names "a" twice', "csv: {header: false} reads files without"),
        (b'a,"b\n', "a quote of the CSV header is out of place", "csv: {header: false}"),
        (b"a,\xff\n", "the CSV header is not UTF-8", "csv: {header: false}"),
        (b"a;b\n", 'the CSV header has no column "a"', 'did you mean csv: {delimiter: ";"}?'),
        (b"a\tb\n", 'the CSV header has no column "a"', 'did you mean csv: {delimiter: "\\t"}?'),
    ],
)
def test_a_header_that_does_not_fit(text: bytes, message: str, hint: str) -> None:
    with pytest.raises(ConnectorError) as raised:
        header(text, a="bigint", b="string")
    assert raised.value.message == message
    assert raised.value.hint.startswith(hint)


def test_a_file_of_a_union_may_lack_columns_that_may_be_null() -> None:
    declared = schema(a="bigint", b="string not null", c="string")
    decoder = CsvDecoder(declared, declared, is_union=True)
    frame, bad = decoder.with_header(b"x,b\n").decode(b"1,2\n", 4)
    assert (frame.rows(named=True), bad) == ([{"a": None, "b": "2", "c": None}], ())
    for names, missing in {b"a,c\n": "b", b"a;b;c\n": "a"}.items():
        with pytest.raises(ConnectorError) as raised:
            decoder.with_header(names)
        assert raised.value.message == f'the CSV header has no column "{missing}"'


def test_a_name_twice_that_nobody_declared_does_no_harm() -> None:
    assert header(b"x,a,x\n", a="bigint").decode(b"1,2,3", 8)[0]["a"].to_list() == [2]


def test_only_needed_columns_are_decoded() -> None:
    declared = schema(a="bigint", b="bigint", c="string")
    decoder = CsvDecoder(schema(c="string"), declared).with_header(b"b,c,a\n")
    frame, bad = decoder.decode(b'x,"y",z\n', 6)
    assert (frame.rows(named=True), bad) == ([{"c": "y"}], ())


def test_no_column_is_rows_all_the_same() -> None:
    decoder = CsvDecoder(schema(), ABC, ABC.names)
    frame, bad = decoder.decode(b"1,2,3\n4,5,6\n1\n", 0)
    assert (frame.shape, len(bad)) == ((2, 0), 1)


def test_other_habits() -> None:
    columns = schema(a="string", b="bigint")
    decoder = CsvDecoder(columns, columns, columns.names, CsvSyntax(b"\t", b"'"), b"\\N")
    block = b"\\N\t1\n'\\N'\t2\n\t3\n'a''b\t\"'\t\\N\nx\t\n"
    frame, bad = decoder.decode(block, 0)
    assert frame.rows() == [(None, 1), ("\\N", 2), ("", 3), ("a'b\t\"", None)]
    assert [fault.error for fault in bad] == ['column "b": wanted bigint, got ""']


def test_null_has_its_text_only_unquoted_in_any_block() -> None:
    columns = schema(a="string")
    decoder = CsvDecoder(columns, columns, columns.names, null=b"NA")
    assert decoder.decode(b'NA\n""\n\n', 0)[0]["a"].to_list() == [None, "", ""]
    assert decoder.decode(b'NA\n"NA"\n', 0)[0]["a"].to_list() == [None, "NA"]


@pytest.mark.parametrize(
    ("data", "length"),
    [
        (b"", 0),
        (b"a", 0),
        (b"a\nb", 2),
        (b'a,"b\nc', 0),
        (b'x\na,"b\nc', 2),
        (b'x\na,"b\nc"\nd', 10),
        (b'x\na,"b\n""\n', 2),
        (b'x\na,"b\n"""\n', 11),
        (b'a,"b"\n', 6),
        (b'a,"b"', 0),
        (b'5" x\na\n"b\n', 7),
        (b"\n\n", 2),
        (b'\xef\xbb\xbf"a\nb"\nc', 9),
        (b'\xef\xbb\xbf"a\nb', 0),
    ],
)
def test_a_cut_is_after_the_last_unquoted_line_end(data: bytes, length: int) -> None:
    assert THREE.find_cut(data) == length


signs = st.sampled_from([b"a", b"b", b",", b",", b'"', b'"', b'""', b"\n", b"\n", b"\r\n", b"1"])
texts = st.lists(signs, max_size=40).map(b"".join)


@settings(max_examples=100, deadline=None)
@example(b",\na\n,,", [])
@example(b"a,1\na\na,1,\n", [])
@example(b',\n\n,,"', [])
@given(texts, st.lists(st.integers(1, 20)))
def test_a_block_is_its_records_one_by_one(data: bytes, sizes: list[int]) -> None:
    columns = schema(a="string", b="bigint not null")
    decoder = CsvDecoder(columns, columns, columns.names)
    whole = decoder.decode(data, 7)
    alone = decoded(decoder, cuts(decoder, data, range(1, len(data) + 1)) or [b""], 7)
    pieces = decoded(decoder, cuts(decoder, data, sizes) or [b""], 7)
    assert whole[0].equals(alone[0]) and whole[1] == alone[1]
    assert whole[0].equals(pieces[0]) and whole[1] == pieces[1]


@settings(max_examples=100, deadline=None)
@given(
    st.lists(st.lists(st.text(alphabet='ab,"\n\ré', max_size=5), min_size=3, max_size=3)),
    st.sampled_from(("\n", "\r\n")),
)
def test_what_python_writes_is_read(rows: list[list[str]], end: str) -> None:
    out = io.StringIO()
    csv.writer(out, lineterminator=end, quoting=csv.QUOTE_ALL).writerows(rows)
    frame, bad = THREE.decode(out.getvalue().encode(), 0)
    assert (frame.rows(), bad) == ([tuple(row) for row in rows], ())


ENCODED: list[tuple[str, object, str]] = [
    ("string", None, ""),
    ("string", "", '""'),
    ("string", "a,b", '"a,b"'),
    ("string", 'a"b', '"a""b"'),
    ("string", "a\nb", '"a\nb"'),
    ("string", "a\r", '"a\r"'),
    ("string", " é ", " é "),
    ("double", 0.1, "0.1"),
    ("double", 1e16, "1e+16"),
    ("double", math.nan, "NaN"),
    ("double", math.inf, "Infinity"),
    ("double", -math.inf, "-Infinity"),
    ("float", math.inf, "Infinity"),
    ("decimal(10,2)", Decimal("1.1"), "1.10"),
    ("boolean", True, "true"),
    ("binary", b"hi", "aGk="),
    ("date", date(2026, 1, 31), "2026-01-31"),
    ("timestamp", datetime(2026, 1, 31, 8, tzinfo=UTC), "2026-01-31T08:00:00.000000Z"),
    ("timestamp_ntz", datetime(2026, 1, 31, 8), "2026-01-31T08:00:00.000000"),
    ("time", time(8, 7), "08:07:00.000000"),
    ("interval year to month", -14, "INTERVAL '-1-2' YEAR TO MONTH"),
]


@pytest.mark.parametrize(("type", "value", "text"), ENCODED)
def test_the_text_of_a_value(type: str, value: object, text: str) -> None:
    columns = schema(a=type, b="bigint")
    rows = frame(columns, [(value, 1)])
    assert CsvEncoder(columns).encode(rows).decode() == f"{text},1\n"


def test_where_null_has_a_text_every_other_field_is_quoted() -> None:
    columns = schema(a="bigint", b="decimal(3,2)", c="double", d="string", e="boolean", f="date")
    rows = frame(columns, [(1, Decimal("1.1"), 1.0, "1", True, date(2026, 1, 31)), (None,) * 6])
    encoder = CsvEncoder(columns, null="1")
    assert encoder.encode(rows) == b'"1","1.10","1.0","1","true","2026-01-31"\n1,1,1,1,1,1\n'


def test_a_header_is_written_once_and_quoted_like_a_record() -> None:
    encoder = CsvEncoder(schema(**{"a": "bigint", 'b"c,d': "string"}))
    assert encoder.header() == b'a,"b""c,d"\n'
    assert replace(encoder, has_header=False).header() == b""
    assert encoder.suffix == ".csv"


@settings(max_examples=40, deadline=None)
@given(
    frames(atoms),
    st.sampled_from(
        (CsvSyntax(), CsvSyntax(b"\t", b"'"), *map(CsvSyntax, (b":", b"-", b".", b"1", b"e")))
    ),
    st.sampled_from(("", "NA", "\\N", "NaN", "1")),
)
def test_rows_read_back_as_they_were(
    drawn: tuple[Schema, pl.DataFrame], shape: CsvSyntax, null: str
) -> None:
    assume(shape.delimiter.decode() not in null)
    columns, rows = drawn
    encoder = CsvEncoder(columns, syntax=shape, null=null)
    text = encoder.encode(rows)
    assert text == b"".join(encoder.encode(rows[at]) for at in range(rows.height))
    decoder = CsvDecoder(columns, columns, syntax=shape, null=null.encode())
    again, bad = decoder.with_header(encoder.header()).decode(text, 0)
    assert not bad
    assert repr(again.rows()) == repr(rows.rows())


def test_decoders_and_encoders_can_be_pickled() -> None:
    decoder = header(b"a,b\n", a="bigint", b="string")
    decoder.decode(b"1,2\n", 0)
    assert pickle.loads(pickle.dumps(decoder)).decode(b'1,"x"\n', 0)[0].rows() == [(1, "x")]
    encoder = CsvEncoder(Schema((Field("a", STRING),)))
    assert pickle.loads(pickle.dumps(encoder)) == encoder
