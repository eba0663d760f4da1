"""Records that are read without Polars' reader: the same values, or none."""

from __future__ import annotations

import random

import polars as pl
import pytest

from headrace.connectors.formats.json_few_lines import MAX_BLOCK_BYTES, read_few_lines
from headrace.connectors.formats.json_reader import read_lines
from tests.connectors.formats.test_fuzz import mutate

TYPES = {
    "a": pl.Int64(),
    "b": pl.String(),
    "c": pl.Float64(),
    "i": pl.Int32(),
    "h": pl.Boolean(),
}


def draw_number(chance: random.Random) -> str:
    """A number in one of the ways to write it, also one that no double has."""
    forms = (
        str(chance.getrandbits(chance.randint(1, 70))),
        repr(chance.random() * 10.0 ** chance.randint(-320, 300)),
        f"{chance.getrandbits(chance.randint(1, 70))}.{chance.getrandbits(chance.randint(1, 90))}",
        f"{chance.getrandbits(55)}e{chance.randint(-340, 300)}",
        *("1e999", "1e-400", "-0.0", "5", "-0", "null"),
    )
    return chance.choice(forms)


def draw_record(chance: random.Random) -> bytes:
    """An object with some of the fields, and others."""
    edges = [2**31 - 1, 2**31, -(2**31), -(2**31) - 1, 2**63 - 1, 2**63, -(2**63), 1.0, "null"]
    fields = {
        "a": str(chance.choice([chance.getrandbits(60), *edges])),
        "b": chance.choice(['"x"', '"é😀"', '"b"', '""', "null", "1"]),
        "c": draw_number(chance),
        "i": str(chance.choice([1, *edges])),
        "h": chance.choice(["true", "false", "null", "1"]),
        "z": chance.choice(["[1,{}]", '{"a":1}', draw_number(chance), "[" * 60 + "]" * 60]),
    }
    names = chance.sample(sorted(fields), chance.randint(1, 6))
    return ("{" + ",".join(f'"{name}":{fields[name]}' for name in names) + "}").encode()


def exactly(frame: pl.DataFrame) -> list[tuple[str, ...]]:
    """Rows whose values are equal only if all their bits are."""
    return [tuple(map(repr, row)) for row in frame.rows()]


def test_records_have_the_values_that_polars_reads() -> None:
    chance, read = random.Random(1), 0
    for _ in range(6000):
        records = [draw_record(chance) for _ in range(chance.choice([1, 1, 2, 5]))]
        if chance.random() < 0.5:
            records = [mutate(record, chance) for record in records]
        block = chance.choice([b"\n", b"\r\n", b"\n \n"]).join(records)
        few = read_few_lines(block, TYPES)
        if few is not None:
            read += 1
            whole = read_lines(block, TYPES)
            assert few.schema == whole.schema
            assert exactly(few) == exactly(whole), block
    assert read > 500


@pytest.mark.parametrize(
    "block",
    [
        b'{"a":1,"a":2}',
        b'{"b":"\\n"}',
        b'{"a":1.0}',
        b'{"b":1}',
        b'{"a":1',
        b"[1]",
        b"",
        b'{"c":1' + b"0" * 20 + b"}",
        b'{"b":"' + b"x" * MAX_BLOCK_BYTES + b'"}',
    ],
)
def test_what_the_two_may_read_differently_is_left_to_polars(block: bytes) -> None:
    assert read_few_lines(block, TYPES) is None


def test_types_of_other_kinds_are_left_to_polars() -> None:
    assert read_few_lines(b'{"a":[1]}', {"a": pl.List(pl.Int64())}) is None
    assert read_few_lines(b'{"a":1}', {}) is None
