"""Damaged records: a decoder never raises, and each record's fate is its own.

`python -m tests.connectors.formats.test_fuzz COUNT [SEED [FORMAT...]]` tries that many records of
each format, and a hundredth as many Parquet files. Records are decoded by the thousand, since a
call of a decoder takes as long as a hundred records.
"""

from __future__ import annotations

import random
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from headrace.connectors.files.parquet_reader import ParquetFileReader
from headrace.connectors.formats import thrift
from headrace.connectors.formats.contract import DecodedBlock, Decoder
from headrace.connectors.formats.csv_decode import CsvDecoder
from headrace.connectors.formats.csv_syntax import RFC_4180
from headrace.connectors.formats.json_decode import JsonDecoder
from headrace.connectors.formats.parquet_read import ParquetReader
from headrace.connectors.formats.raw import RawDecoder
from headrace.connectors.formats.record_isolation import decode_isolated
from headrace.connectors.kafka.source.value_decoding import (
    RawValueDecoder,
    ValueDecoder,
    build_csv_decoder,
    build_json_decoder,
)
from headrace.connectors.memory import InMemoryData
from headrace.core.api.failures import ConnectorError
from headrace.core.api.sources import BadRecord
from headrace.core.api.splits import Split
from headrace.core.types.data_types import Schema
from tests.support.file_pipelines import run
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


BLOCK_RECORDS = 1000


def check(decoder: Decoder, records: list[bytes], chance: random.Random | None = None) -> None:
    """Decode records together, and in other blocks in another order: their fates are the same.

    Without `chance`, each record is a block of its own.
    """
    whole = decode_all(decoder, [records])
    blocks = [[record] for record in records]
    if chance is not None:
        mixed = chance.sample(records, len(records))
        blocks, at = [], 0
        while at < len(mixed):
            blocks.append(mixed[at : (at := at + chance.choice([1, 10, 100, 300]))])
    if decode_all(decoder, blocks) != whole:
        assert chance is not None, records
        for record in records:  # finds the records that differ
            check(decoder, [record, *records[:3]])
        raise AssertionError(records)


def decode_all(decoder: Decoder, blocks: list[list[bytes]]) -> tuple[Counter[str], Counter[object]]:
    """Return all rows as text, since NaN differs from itself, and all errors with their records."""
    good, errors = Counter[str](), Counter[object]()
    for block in blocks:
        frame, bad = decoder.decode(b"".join(record + b"\n" for record in block), 100)
        good.update(map(str, frame.rows()))
        errors.update((each.error, each.raw) for each in bad)
    return good, errors


def iterate_blocks(count: int, record: bytes, chance: random.Random) -> Iterator[list[bytes]]:
    """Yield blocks of damaged records, `count` in all."""
    for at in range(0, count, BLOCK_RECORDS):
        yield [mutate(record, chance) for _ in range(min(BLOCK_RECORDS, count - at))]


def check_json(count: int, chance: random.Random) -> None:
    for records in iterate_blocks(count, RECORD, chance):
        check(JsonDecoder(JSON), records, chance)


def check_csv(count: int, chance: random.Random) -> None:
    decoder = CsvDecoder(CSV, CSV, CSV.names)
    for records in iterate_blocks(count, LINE, chance):
        check(decoder, [record for record in records if has_its_quotes(record)], chance)
        decoder.decode(b"\n".join(records), 100)


def has_its_quotes(record: bytes) -> bool:
    """Whether the record ends at its line's end; one with odd quotes may swallow the next."""
    return record.count(b'"') % 2 == 0 and RFC_4180.split_fields(record) is not None


def check_raw(count: int, chance: random.Random) -> None:
    text, binary = RawDecoder(schema(v="string")), RawDecoder(schema(v="binary"))
    for records in iterate_blocks(count, LINE, chance):
        check(text, records, chance)
        block = b"".join(record + b"\n" for record in records)
        frame, bad = text.decode(block, 100)
        assert frame.height + len(bad) == len(records)
        # A byte order mark is removed from the start of a split alone.
        assert binary.decode(block, 100)[0]["v"].to_list() == records


def check_kafka(count: int, chance: random.Random) -> None:
    """Decode damaged values of records, which may contain line ends, in blocks of two kinds."""
    readers: list[tuple[ValueDecoder, bytes]] = [
        (build_json_decoder(JsonDecoder(JSON)), RECORD),
        (build_csv_decoder(CsvDecoder(CSV, CSV, CSV.names), RFC_4180), LINE),
        (RawValueDecoder(schema(v="string")), LINE),
    ]
    for reader, record in readers:
        for records in iterate_blocks(count // len(readers), record, chance):
            values = [add_line_end(each, chance) for each in records]
            blocks, at = [], 0
            while at < len(values):
                blocks.append(values[at : (at := at + chance.choice([1, 10, 100, 300]))])
            assert list_fates(reader, [values]) == list_fates(reader, blocks)


def add_line_end(value: bytes, chance: random.Random) -> bytes | None:
    at = chance.randrange(len(value) + 1)
    ends = [b""] * 8 + [b"\n", b"\r\n", b"\r", b"\n\n"]
    return chance.choice([*[value[:at] + end + value[at:] for end in ends], None])


def list_fates(reader: ValueDecoder, blocks: list[list[bytes | None]]) -> list[str]:
    """Return the row of each value, or its error."""
    found = []
    for values in blocks:
        decoded = reader.decode_values(values)
        rows = iter(decoded.frame.rows())
        for number in range(len(values)):
            skipped = "skipped" if number in decoded.skipped else ""
            found.append(decoded.errors.get(number) or skipped or str(next(rows)))
        assert not list(rows)
    return found


PARQUET_COLUMNS = {k: v for k, v in PLAIN.items()} | {
    "e": "array<int>",
    "f": "struct<x: bigint, y: array<string>>",
}
PARQUET = schema(**PARQUET_COLUMNS)
NUMBERS = [0, 1, -1, 7, 255, 2**31 - 1, -(2**31), 2**40, 2**62, -(2**63)]


def check_parquet(count: int, chance: random.Random) -> None:
    """Read damaged files: each gives its rows, or is an error of the file."""
    rows, _ = JsonDecoder(PARQUET).decode((RECORD + b"\n") * 50, 0)
    with TemporaryDirectory() as folder:
        path = Path(folder, "a.parquet")
        rows.write_parquet(path, row_group_size=20)
        data = path.read_bytes()
        reader = ParquetFileReader(folder, ParquetReader(PARQUET, PARQUET), rows=17)
        for _ in range(count):
            damage = chance.choice([damage_bytes, damage_footer])
            path.write_bytes(damage(data, chance))
            try:
                for chunk in reader.read(Split("s", path.name), None):
                    assert chunk.frame.schema == rows.schema
            except ConnectorError as error:
                assert error.split == path.name


def damage_bytes(data: bytes, chance: random.Random) -> bytes:
    """Change, insert or remove some bytes, mostly close to the footer."""
    for _ in range(chance.choice([1, 1, 2, 4])):
        near = min(len(data), 3000) if chance.random() < 0.7 else len(data)
        at = len(data) - 1 - chance.randrange(near)
        added = bytes(chance.choice([0, 255, 127, 128]) for _ in range(chance.choice([0, 1, 4, 8])))
        data = data[:at] + added + data[at + chance.choice([0, 1, 1, 2, 8]) :]
    return data


def damage_footer(data: bytes, chance: random.Random) -> bytes:
    """Change values of the footer, which stays well-formed."""
    size = int.from_bytes(data[-8:-4], "little")
    footer = thrift.read_struct(data[-8 - size : -8])
    for _ in range(chance.choice([1, 1, 2])):
        value = chance.choice(list(iterate_values(footer)))
        match value.plain:
            case bool():
                value.plain = not value.plain
            case int() as number:
                value.plain = chance.choice([*NUMBERS, number - 1, number + 1])
            case bytes() as text:
                value.plain = chance.choice([b"", b"a", b"\xff", text * 2])
            case thrift.ThriftList(elements=elements) if elements:
                elements[:] = chance.choice([elements[1:], elements[::-1], elements * 2, []])
    new = thrift.write_struct(footer)
    return data[: -8 - size] + new + len(new).to_bytes(4, "little") + data[-4:]


def iterate_values(struct: thrift.ThriftStruct) -> Iterator[thrift.ThriftValue]:
    """Yield the values of a struct at any depth."""
    for value in struct.values():
        yield value
        inner = value.items if isinstance(value.plain, thrift.ThriftList) else [value.plain]
        for each in inner:
            if isinstance(each, dict):
                yield from iterate_values(each)


CHECKS: dict[str, tuple[Callable[[int, random.Random], None], int]] = {
    "json": (check_json, 600),
    "csv": (check_csv, 1000),
    "raw": (check_raw, 3000),
    "kafka": (check_kafka, 600),
    "parquet": (check_parquet, 40),
}


@pytest.mark.parametrize("format", CHECKS)
def test_damaged_records_are_bad_records(format: str) -> None:
    check, count = CHECKS[format]
    check(count, random.Random(format))


@pytest.mark.parametrize("on_error", ["skip", "{to: bad}"])
@pytest.mark.parametrize("format", ["json", "csv", "raw"])
def test_a_run_over_damaged_records_ends_well_and_counts_them(
    tmp_path: Path, format: str, on_error: str
) -> None:
    chance = random.Random(f"{format} {on_error}")
    columns = {"json": JSON, "csv": CSV, "raw": schema(v="string")}[format]
    (records,) = iterate_blocks(500, RECORD if format == "json" else LINE, chance)
    if format != "raw":
        records = [r for r in records if r.strip() and (format == "json" or has_its_quotes(r))]
    data = b"".join(record + b"\n" for record in records)
    header = ",".join(columns.names).encode() + b"\n" if format == "csv" else b""
    (tmp_path / "a").write_bytes(header + data)
    source = f"format: {format}, schema: {{{write_schema(columns)}}}, on_error: {on_error}"
    text = f"""
sources:
  s: {{files: {{path: a}}, {source}}}
sinks:
  o: {{from: s, memory: {{data: out}}}}
  {"l: {from: bad, memory: {data: letters}}" if on_error != "skip" else ""}
"""
    memory = InMemoryData()
    outcome = run(tmp_path, text, memory=memory, block=20_000)
    assert outcome.failure is None
    counts = outcome.part_counts["s"]
    assert counts.rows_out + counts.bad_rows == len(records)
    assert sum(frame.height for frame in memory.outputs["out"]) == counts.rows_out
    letters = sum(frame.height for frame in memory.outputs.get("letters", []))
    assert letters == (0 if on_error == "skip" else counts.bad_rows)
    assert 0 < counts.bad_rows < len(records)


def write_schema(columns: Schema) -> str:
    """Return the columns as in a pipeline."""
    return ", ".join(f'{field.name}: "{field.type}"' for field in columns)


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
    for name in sys.argv[3:] or CHECKS:
        start, trials = time.monotonic(), many // 100 if name == "parquet" else many
        CHECKS[name][0](trials, random.Random(from_seed))
        print(f"{name}: {trials:,} in {time.monotonic() - start:.0f} s")
