"""Damaged records: a decoder never raises, and each record's fate is its own.

`python -m tests.connectors.formats.test_fuzz COUNT [SEED]` tries that many records of each format.
"""

from __future__ import annotations

import random
import sys

import pytest

from headrace.connectors.formats.contract import DecodedBlock, Decoder
from headrace.connectors.formats.csv_decode import CsvDecoder
from headrace.connectors.formats.json_decode import JsonDecoder
from headrace.connectors.formats.record_isolation import decode_isolated
from headrace.core.api.sources import BadRecord
from tests.support.formats.decoding import schema

PLAIN = {
    "a": "bigint",
    "b": "string",
    "c": "double",
    "d": "decimal(10,2)",
    "t": "timestamp",
    "g": "date",
    "h": "boolean",
}
JSON = schema(**PLAIN, e="array<int>", f="struct<x: bigint, y: array<string>>", i="binary")
CSV = schema(**PLAIN, s="string")
RECORD = (
    b'{"a":1,"b":"x","c":1.5,"d":2.25,"e":[1,2],"f":{"x":7,"y":["z"]},'
    b'"t":"2026-01-31T08:00:00Z","g":"2026-01-31","h":true,"i":"AQI=","more":{"n":[1,{"m":2}]}}'
)
LINE = b'1,x,1.5,2.25,2026-01-31T08:00:00Z,2026-01-31,true,"quoted, with ""quotes"" and text"'
PIECES = [
    b"1" * 5000,
    b"-" + b"9" * 4301,
    b"1e999999999",
    b"0." + b"1" * 5000,
    b"[" * 3000,
    b'{"a":' * 1500,
    b"\\ud800",
    b"\\u0000",
    b"\x00",
    b"\xff\xfe",
    b"\xed\xa0\x80",
    b"NaN",
    b"-Infinity",
    b"null",
    b'""',
    b"''",
    b'"',
    b"{}",
    b"[]",
    b",",
    b":",
    b"\t",
    b"\r",
    b"99999-12-31",
    b"0000-00-00T25:61:61Z",
    b'"a":2,',
    b'"\xc3\xa9"',
]


def mutate(record: bytes, chance: random.Random) -> bytes:
    """Damage a record; it stays one line."""
    for _ in range(chance.choice([0, 1, 1, 2, 4])):
        at = chance.randrange(len(record) + 1)
        match chance.randrange(4):
            case 0:
                record = record[:at] + chance.choice(PIECES) + record[at:]
            case 1:
                record = record[:at] + record[at + chance.choice([1, 1, 5, 50]) :]
            case 2:
                record = record[:at] + bytes([chance.randrange(256)]) + record[at + 1 :]
            case _:
                words = [b"1", b"1.5", b'"x"', b"true", b"[1,2]", b"2026-01-31"]
                record = record.replace(chance.choice(words), chance.choice(PIECES), 1)
    return record.replace(b"\n", b" ")


def check(decoder: Decoder, records: list[bytes]) -> None:
    """Decode records together and one by one."""
    whole, bad = decoder.decode(b"".join(record + b"\n" for record in records), 100)
    alone = [decoder.decode(record + b"\n", 100) for record in records]
    # NaN differs from itself, so values are compared by their text.
    assert str(whole.rows()) == str([row for frame, _ in alone for row in frame.rows()])
    assert [each.error for each in bad] == [each.error for _, some in alone for each in some]


def check_json(count: int, chance: random.Random) -> None:
    for _ in range(count // 20):
        check(JsonDecoder(JSON), [mutate(RECORD, chance) for _ in range(20)])


def check_csv(count: int, chance: random.Random) -> None:
    decoder = CsvDecoder(CSV, CSV, CSV.names)
    for _ in range(count // 20):
        records = [mutate(LINE, chance) for _ in range(20)]
        check(decoder, [record for record in records if has_its_quotes(decoder, record)])
        decoder.decode(b"\n".join(records), 100)


def has_its_quotes(decoder: CsvDecoder, record: bytes) -> bool:
    """Whether the record ends at its line's end; one with odd quotes may swallow the next."""
    _, bad = decoder.decode(record + b"\n", 100)
    return record.count(b'"') % 2 == 0 and not any("quote" in each.error for each in bad)


@pytest.mark.parametrize("seed", range(3))
def test_damaged_json_is_a_bad_record(seed: int) -> None:
    check_json(300, random.Random(seed))


@pytest.mark.parametrize("seed", range(3))
def test_damaged_csv_is_a_bad_record(seed: int) -> None:
    check_csv(300, random.Random(seed))


@pytest.mark.parametrize("type", ["bigint", "double", "string", "decimal(10,2)", "array<int>"])
def test_numbers_of_many_digits_end_no_job(type: str) -> None:
    digits = b"1" * 5000
    records = [
        b'{"a":1}',
        b'{"z":%b}' % digits,
        b'{"a":%b}' % digits,
        b'{"b":[{"x":-%b}]}' % digits,
    ]
    check(JsonDecoder(schema(a=type)), records)
    _, bad = JsonDecoder(schema(a="boolean")).decode(b"[%b]\n" % digits, 0)
    assert [each.position for each in bad] == [0]


def test_an_exception_of_a_decoder_concerns_its_record_alone() -> None:
    decoder = JsonDecoder(schema(a="bigint"))

    def decode(block: bytes, offset: int) -> DecodedBlock:
        if b"13" in block:
            raise ValueError("unlucky\nand more")
        return decoder.decode(block, offset)

    block = b"".join(b'{"a":%d}\n' % n for n in range(20))
    frame, bad = decode_isolated(decode, decoder.find_cut, block, 1000)
    assert frame["a"].to_list() == [n for n in range(20) if n != 13]
    error = "it cannot be decoded: ValueError: unlucky"
    assert bad == (BadRecord(error, 1000 + block.index(b'{"a":13}'), '{"a":13}'),)


if __name__ == "__main__":
    many, from_seed = int(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 0
    check_json(many, random.Random(from_seed))
    check_csv(many, random.Random(from_seed))
