"""A record's fate is its own: however a block is cut, each record becomes what it is alone."""

from __future__ import annotations

from hypothesis import example, given, settings
from hypothesis import strategies as st

from headrace.connectors.formats.json_decode import JsonDecoder
from headrace.core.types.data_types import Schema
from tests.support.formats.decoding import cuts, decoded, schema

COLUMNS = schema(
    a="bigint not null",
    b="double",
    c="string",
    d="decimal(10,2)",
    e="timestamp",
    f="array<double>",
    g="struct<x:decimal(5,1),y:timestamp,z:array<binary>,s:string>",
    h="tinyint",
    i="binary",
    j="float",
)

VALUES = (
    *("1", "1.5", "-0", "-0.0", "1e3", "128", "01", "9223372036854775808", "1e39", "1e999"),
    *("1.005", "123456789012.5", "NaN", "null", "true", '""', '"x"', '"1.5"', '"5"'),
    *('"NaN"', '"Infinity"', '"-Infinity"', '"\\u004eaN"', '"a \\"NaN"', '"\\"NaN\\""'),
    *('"2026-01-31T08:00:00Z"', '"2026-01-31"', '"2026-13-31"', '"aGk="', '"aG="'),
    *('"é😀"', '"\\ud83d\\ude00"', '"\\ud83d"', '"\\ude00"', '"\\\\ud83d"', '"a\tb"', '"\\x"'),
    *("[]", "[1.5]", '[1,"NaN",null]', '["1.5"]', "[true]", "{}", '{"x":1.25}', '{"x":"NaN"}'),
    *('{"y":"2026-01-31","z":["aGk="]}', '{"z":[1]}', '{"s":"NaN","y":null}', '{"s":{"NaN":1}}'),
    *("tru", "[1", '{"x":', "[" * 1100 + "]" * 1100),
)

LINES = (
    *(b"", b" \t", b"\r", b"null", b"[]", b"1", b'"x"', b"{}", b"x", b"{", b'{"a":1}{"a":2}'),
    *(b'{"a":1}x', b'{"a":1,}', b'{"a":1}\xff', b'{"a":1,"c":"\xff"}', b'\xef\xbb\xbf{"a":1}'),
    *(b'{"a":1,"zz":"\xff"}', b'{"a":1,"zz":"\\ud83d"}', b'{"a":1,"zz":1e999}', b"\x00", b"\x0b"),
)

names = st.sampled_from([*COLUMNS.names, "a", "zz", "\\u0061", "NaN"])
fields = st.tuples(names, st.sampled_from(VALUES))
between = st.sampled_from(("", " ", "\t"))


@st.composite
def objects(draw: st.DrawFn) -> bytes:
    """Mostly an object with an `a`, some of whose fields may be what they should not."""
    space = draw(between)
    start = [("a", "1")] if draw(st.integers(0, 9)) else []
    parts = [
        f'"{name}"{space}:{value}' for name, value in start + draw(st.lists(fields, max_size=3))
    ]
    end = draw(st.sampled_from(("}", "} ", "}\r")))
    return f"{space}{{{f',{space}'.join(parts)}{end}".encode()


lines = st.one_of(objects(), objects(), st.sampled_from(LINES))


@settings(max_examples=40, deadline=None)
@given(st.lists(lines, max_size=12), st.booleans(), st.lists(st.integers(1, 200)))
@example([b'{"a":1,"b":"NaN"}', b'{"a":1,"b":1.5,"f":["NaN"]}', b'{"a":"x"}'], True, [])
@example([b'{"a":1,"g":{"x":1}}', b'{"a":1,"f":[1.5]}', b'{"a":1,"f":["x"]}'], False, [1])
def test_a_block_is_its_lines_one_by_one(
    records: list[bytes], ended: bool, sizes: list[int]
) -> None:
    decoder = JsonDecoder(COLUMNS)
    data = b"\n".join(records) + (b"\n" if ended else b"")
    alone = decoded(decoder, one_by_one(data), 5)
    whole = decoded(decoder, [data], 5)
    pieces = decoded(decoder, cuts(decoder, data, sizes) or [b""], 5)
    assert whole[0].equals(alone[0]) and pieces[0].equals(alone[0])
    assert whole[1] == alone[1] == pieces[1]


def one_by_one(data: bytes) -> list[bytes]:
    """The lines, each with its line feed; a carriage return alone ends none."""
    *ended, last = data.split(b"\n")
    return [*(line + b"\n" for line in ended), last]


@settings(max_examples=40, deadline=None)
@given(st.lists(objects(), min_size=1, max_size=8))
def test_a_column_is_the_same_whatever_else_is_read(records: list[bytes]) -> None:
    block = b"\n".join(records)
    whole, bad = JsonDecoder(COLUMNS).decode(block, 0)
    worst = {record.position for record in bad}
    good = b"\n".join(
        record for at, record in zip(starts(records), records, strict=True) if at not in worst
    )
    for field in COLUMNS:
        frame, none = JsonDecoder(Schema((field,))).decode(good, 0)
        assert not none
        assert frame[field.name].equals(whole[field.name], null_equal=True)


def starts(records: list[bytes]) -> list[int]:
    found, at = [], 0
    for record in records:
        found.append(at)
        at += len(record) + 1
    return found
