"""Undocumented properties of aiokafka that the sink relies on: a new version fails here."""

from __future__ import annotations

import inspect

import aiokafka.errors
from aiokafka.client import AIOKafkaClient
from aiokafka.protocol import produce, transaction
from aiokafka.record.default_records import DefaultRecordBatchBuilder

from headrace.connectors.kafka.errors import EXTRA_ERRORS, build_error
from headrace.connectors.kafka.sink.producer_batches import (
    ProducerBatches,
    ProducerIdentity,
    RecordColumns,
    iterate_rows,
)


def versions(request: type) -> set[int]:
    return {struct.API_VERSION for struct in request._CLASSES}  # type: ignore[attr-defined]


def test_ending_a_transaction_leaves_the_epoch_as_it_is() -> None:
    # From version 5 of EndTxn on, the broker answers with another epoch for what comes next.
    assert max(versions(transaction.EndTxnRequest)) < 5
    assert max(versions(transaction.InitProducerIdRequest)) < 5
    # From version 4 on, AddPartitionsToTxn is of several transactions at once.
    assert max(versions(transaction.AddPartitionsToTxnRequest)) < 4


def test_requests_are_put_as_the_sink_puts_them() -> None:
    init = transaction.InitProducerIdRequest("id", 1000)
    assert init.build(transaction.InitProducerIdRequest_v0).to_object() == {
        "transactional_id": "id",
        "transaction_timeout_ms": 1000,
    }
    end = transaction.EndTxnRequest("id", 7, 1, True)
    assert end.build(transaction.EndTxnRequest_v0).to_object() == {
        "transactional_id": "id",
        "producer_id": 7,
        "producer_epoch": 1,
        "transaction_result": True,
    }
    # The fields of an answer's partitions are read by their places: number and code.
    partitions = produce.ProduceResponse_v7.SCHEMA.fields[0].array_of.fields[1].array_of
    assert partitions.names[:2] == ("partition", "error_code")


def test_a_client_sends_requests_and_knows_leaders() -> None:
    assert list(inspect.signature(AIOKafkaClient.send).parameters) == [
        "self",
        "node_id",
        "request",
        "group",
    ]
    assert not inspect.iscoroutinefunction(AIOKafkaClient.force_metadata_update)


def test_batches_carry_who_writes_them() -> None:
    batches = ProducerBatches(ProducerIdentity(7, 3, "id"))
    batches.add_records(RecordColumns("t", [0], [b"k"], [b"v"], [17]), now_s=0.0)
    (sealed,) = batches.seal_before(1.0)
    assert DefaultRecordBatchBuilder.__module__.endswith("_crecords.default_records")
    # By the format of record batches: the attributes, the producer, its epoch, the first number.
    data = bytes(sealed.data)
    assert int.from_bytes(data[21:23]) & 0x10
    assert int.from_bytes(data[43:51]) == 7
    assert int.from_bytes(data[51:53]) == 3
    assert int.from_bytes(data[53:57]) == 0
    assert list(iterate_rows(sealed)) == [(17, b"k", b"v", [])]


def test_errors_that_aiokafka_does_not_name_are_still_unnamed() -> None:
    for code in EXTRA_ERRORS:
        assert aiokafka.errors.for_code(code) is aiokafka.errors.UnknownError
        assert not isinstance(build_error(code), aiokafka.errors.UnknownError)
