"""Messages of Debezium become changes of a table, however values are written in them.

This also tests debezium_values.
"""

from __future__ import annotations

import json
import random
from base64 import b64encode
from collections.abc import Mapping
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.connectors.formats.debezium import UNAVAILABLE, DebeziumDecoder
from headrace.core.plan.nodes import DEBEZIUM_COLUMNS
from headrace.core.types.data_types import Field, Schema
from headrace.core.types.elements import DELETE
from headrace.core.types.type_parser import parse_type

TYPES = {
    "id": "bigint",
    "amount": "decimal(10,2)",
    "day": "date",
    "at": "timestamp",
    "local": "timestamp_ntz",
    "clock": "time(6)",
    "city": "string",
}
ROWS = Schema(tuple(Field(name, parse_type(text)[0], name != "id") for name, text in TYPES.items()))
METADATA = Schema(DEBEZIUM_COLUMNS)
EPOCH = datetime(1970, 1, 1)
TIME = "io.debezium.time"
CONNECT = "org.apache.kafka.connect.data"


def decoder(epoch: str | None = None, decimals: str | None = None) -> DebeziumDecoder:
    return DebeziumDecoder(ROWS, METADATA, ("id",), epoch, decimals)


def message(
    op: str | None,
    after: Mapping[str, Any] | None = None,
    before: Mapping[str, Any] | None = None,
    **more: Any,
) -> bytes:
    source = {"version": "3.1.0.Final", "connector": "postgresql", "lsn": 7, "snapshot": "false"}
    whole = {"before": before, "after": after, "source": source, "op": op, "ts_ms": 5, **more}
    return json.dumps(whole).encode()


def unscaled(value: Decimal, scale: int) -> str:
    """Return a decimal as Debezium writes it by default."""
    number = int(value.scaleb(scale))
    length = max(1, (number.bit_length() + 8) // 8)
    return b64encode(number.to_bytes(length, "big", signed=True)).decode()


def wrapped(text: bytes, types: Mapping[str, tuple[str, str, Mapping[str, str]]]) -> bytes:
    """Return a message with its schema, which has these types of columns."""
    fields = [
        {"field": name, "type": type, "optional": True, "name": of, "parameters": parameters}
        for name, (type, of, parameters) in types.items()
    ]
    rows = [{"type": "struct", "fields": fields, "field": f} for f in ("before", "after")]
    others = [{"type": "string", "field": "op"}, {"type": "int64", "field": "ts_ms"}]
    schema = {"type": "struct", "fields": [*rows, *others], "name": "shop.orders.Envelope"}
    return json.dumps({"schema": schema, "payload": json.loads(text)}).encode()


def test_rows_are_created_read_updated_and_deleted() -> None:
    found = decoder().decode_messages(
        [
            message("c", {"id": 1, "city": "Wien"}),
            message("r", {"id": 2, "city": "Roma"}),
            message("u", {"id": 1, "city": "Graz"}, {"id": 1, "city": "Wien"}),
            message("d", None, {"id": 2}),
        ]
    )
    assert (found.errors, found.skipped) == ({}, [])
    rows = found.frame.select("id", "city", DELETE, "__before.id", "op", "ts_ms")
    assert rows.rows() == [
        (1, "Wien", False, None, "c", 5),
        (2, "Roma", False, None, "r", 5),
        (1, "Graz", False, 1, "u", 5),
        (2, None, True, None, "d", 5),
    ]
    assert found.frame["source"].struct.field("lsn").to_list() == [7] * 4


def test_messages_without_a_change_are_skipped() -> None:
    transaction = {"status": "BEGIN", "id": "571:53195829", "event_count": None, "ts_ms": 1}
    ddl = {"source": {}, "ts_ms": 1, "databaseName": "shop", "ddl": "create", "tableChanges": []}
    others = [{"ts_ms": 1}, transaction, ddl, {"schema": None, "payload": None}]
    texts = [json.dumps(each).encode() for each in others]
    tombstones = [None, b"null ", *texts]
    messages = [*tombstones, wrapped(texts[0], {}), message("m"), message("c", {"id": 1})]
    found = decoder().decode_messages(messages)
    assert (found.errors, found.skipped) == ({}, [0, 1, 2, 3, 4, 5, 6, 7])
    assert found.frame["id"].to_list() == [1]


@pytest.mark.parametrize(
    ("text", "error"),
    [
        (b"nope", "wanted a Debezium message: JSON is malformed"),
        (b"[1]", "wanted a Debezium message: Expected `object`, got `array`"),
        (b'{"id": 1, "city": "Wien"}', "wanted a change of a row, but it has no op"),
        (message("t"), 'op is "t": a truncated table cannot be followed'),
        (message("x", {"id": 1}), 'wanted a change of a row, but op is "x"'),
        (message("d"), '"before" is null'),
        (message("u"), '"after" is null'),
        (message("c", {"city": "Wien"}), 'column "id": wanted bigint not null, got null'),
        (message("c", {"id": "one"}), 'column "id": wanted bigint, got "one"'),
        (message("u", {"id": 1, "city": UNAVAILABLE}), "replica identity full writes it"),
        (message("c", {"id": 1, "at": 17}), 'got "17", whose unit is not known: say so, as in'),
        (message("c", {"id": 1, "clock": 17}), "debezium_json: {epoch: us}"),
        (message("c", {"id": 1, "amount": "1234"}), "may be text or base64: say so, as in"),
        (message("c", {"id": 1, "amount": "1.2.3"}), 'wanted decimal(10,2), got "1.2.3"'),
        (message("c", {"id": 1, "at": "soon"}), 'column "at": wanted timestamp, got "soon"'),
        (message("c", {"id": 1}, source={"lsn": "x"}), 'column "source"'),
        (message("u", {"id": 1}, {"id": "one"}), 'column "id": wanted bigint, got "one"'),
        (b'{"op": "u", "before": [1], "after": {"id": 1}}', "wanted a JSON object, got [1]"),
    ],
)
def test_a_message_that_cannot_be_applied_is_a_bad_record(text: bytes, error: str) -> None:
    found = decoder().decode_messages(
        [message("c", {"id": 1}), text, message("d", None, {"id": 2})]
    )
    assert error in found.errors[1]
    assert found.frame["id"].to_list() == [1, 2]


def test_a_deletion_needs_no_large_value() -> None:
    found = decoder().decode_messages([message("d", None, {"id": 1, "city": UNAVAILABLE})])
    assert found.frame.select("id", DELETE).rows() == [(1, True)]


def test_lines_of_a_file_are_messages() -> None:
    others = [b'{"ts_ms": 1}', b"null", b"{"]
    block = b"\n".join([message("c", {"id": 1}), *others, message("c", {"id": 2})])
    frame, (bad,) = decoder().decode(block, 0)
    assert frame["id"].to_list() == [1, 2]
    assert isinstance(bad.position, int)
    assert block[bad.position :].startswith(b"{\n")


DATES = st.dates(date(1900, 1, 1), date(2200, 1, 1))
MILLIS = st.integers(-(2**40), 2**42).map(lambda ms: EPOCH + timedelta(milliseconds=ms))
CENTS = st.integers(-(10**10) + 1, 10**10 - 1).map(lambda number: Decimal(number).scaleb(-2))
VALUES = st.fixed_dictionaries(
    {
        "id": st.integers(-(2**60), 2**60),
        "amount": st.none() | CENTS,
        "day": st.none() | DATES,
        "at": st.none() | MILLIS,
        "local": st.none() | MILLIS,
        "clock": st.none() | st.integers(0, 86_399_999),
        "city": st.none() | st.sampled_from(["", "Wien", "größe", '"\\', "a\nb"]),
    }
)
NAMES = {
    "ms": ("Timestamp", "Time", 1000),
    "us": ("MicroTimestamp", "MicroTime", 1),
    "ns": ("NanoTimestamp", "NanoTime", 0.001),
}


def written(
    values: Mapping[str, Any], unit: str | None, decimals: str, scale: int
) -> dict[str, Any]:
    """Return a row as a connector writes it; without a unit, times are texts."""
    row = dict(values)

    def epoch(value: datetime) -> int:
        micros = (value - EPOCH) // timedelta(microseconds=1)
        return micros * 1000 if unit == "ns" else micros // (1000 if unit == "ms" else 1)

    for name in ("at", "local"):
        if row[name] is not None:
            zone = "Z" if name == "at" else ""
            row[name] = epoch(row[name]) if unit else f"{row[name].isoformat()}{zone}"
    if row["day"] is not None:
        row["day"] = (row["day"] - date(1970, 1, 1)).days if unit else row["day"].isoformat()
    if row["clock"] is not None:
        many = {"ms": 1, "us": 1000, "ns": 1_000_000, None: 1}[unit]
        clock = (EPOCH + timedelta(milliseconds=row["clock"])).time().isoformat()
        row["clock"] = row["clock"] * many if unit else clock
    if row["amount"] is not None:
        amount = row["amount"]
        row["amount"] = unscaled(amount, scale) if decimals == "base64" else f"{amount:f}"
    return row


def shown(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return a row as it is read."""
    row = dict(values)
    if row["at"] is not None:
        row["at"] = row["at"].replace(tzinfo=UTC)
    if row["clock"] is not None:
        row["clock"] = (EPOCH + timedelta(milliseconds=row["clock"])).time()
        assert isinstance(row["clock"], time)
    return row


@settings(max_examples=50, deadline=None)
@given(st.lists(VALUES, max_size=8), st.randoms(use_true_random=False))
def test_values_are_read_as_the_schema_or_the_options_say(
    rows: list[dict[str, Any]], chance: random.Random
) -> None:
    with_options: list[bytes] = []
    with_schemas: list[bytes] = []
    for row in rows:
        unit, decimals = chance.choice([None, "ms", "us", "ns"]), chance.choice(["text", "base64"])
        scale = chance.choice([2, 4])
        types: dict[str, tuple[str, str, Mapping[str, str]]] = {}
        if unit:
            stamp, clock, _ = NAMES[unit]
            types |= {name: ("int64", f"{TIME}.{stamp}", {}) for name in ("at", "local")}
            types |= {
                "day": ("int32", f"{TIME}.Date", {}),
                "clock": ("int64", f"{TIME}.{clock}", {}),
            }
        binary = ("bytes", f"{CONNECT}.Decimal", {"scale": str(scale)})
        types["amount"] = binary if decimals == "base64" else ("string", "", {})
        text = message("c", written(row, unit, decimals, scale))
        with_schemas.append(wrapped(text, types))
        with_options.append(message("c", written(row, "us", "base64", 2)))
    wanted = [shown(row) for row in rows]
    for reader, messages in (
        (decoder(), with_schemas),
        (decoder("us", "base64"), with_options),
    ):
        found = reader.decode_messages(messages)
        assert (found.errors, found.skipped) == ({}, [])
        assert found.frame.select(ROWS.names).to_dicts() == wanted


def test_decimals_may_have_a_scale_of_their_own() -> None:
    amounts = [{"scale": 1, "value": unscaled(Decimal("12.5"), 1)}, 12.5, "-7", "12.50"]
    messages = [message("c", {"id": 1, "amount": amount}) for amount in amounts]
    found = decoder().decode_messages(messages)
    assert found.frame["amount"].to_list() == list(
        map(Decimal, ("12.50", "12.50", "-7.00", "12.50"))
    )


def test_numbers_that_are_too_large_for_a_time_are_bad() -> None:
    messages = [message("c", {"id": 1, "at": 2**62}), message("c", {"id": 1, "clock": 86_400_000})]
    found = decoder("ms").decode_messages(messages)
    assert [*found.errors] == [0, 1]
