"""What brokers refuse, in a user's words; and what passes, so that it is tried again."""

from __future__ import annotations

from aiokafka import errors as kafka

from headrace.core.contracts import ConnectorError

AWAY = (
    kafka.KafkaConnectionError,
    kafka.NodeNotReadyError,
    kafka.RequestTimedOutError,
    kafka.StaleMetadata,
    kafka.CorrelationIdError,
)
"""Nobody has answered."""
MOVED = (
    kafka.CoordinatorNotAvailableError,
    kafka.NotCoordinatorError,
    kafka.CoordinatorLoadInProgressError,
)
"""Somebody else coordinates a transaction now, or soon."""
LOST = (
    kafka.InvalidProducerEpoch,
    kafka.ProducerFenced,
    kafka.InvalidTxnState,
    kafka.InvalidProducerIdMapping,
)
"""The transaction is not open any more, and was not committed by whoever asks."""
GROUPED = (kafka.MessageSizeTooLargeError, kafka.RecordListTooLargeError)
"""A batch is too large: its rows may not be, each by itself."""


class InvalidRecordError(kafka.BrokerResponseError):  # type: ignore[misc] # it has no types
    """aiokafka does not know it."""

    errno = 87
    message = "INVALID_RECORD"


UNNAMED = {87: InvalidRecordError, 90: kafka.ProducerFenced}


def of_code(code: int) -> kafka.KafkaError:
    """What a broker answered with."""
    return UNNAMED[code]() if code in UNNAMED else kafka.for_code(code)()


def passes(error: kafka.KafkaError) -> bool:
    """Whether it may go better the next time."""
    return isinstance(error, (*AWAY, *MOVED, kafka.ConcurrentTransactions)) or bool(
        getattr(error, "retriable", False)
    )


def refusal(error: kafka.KafkaError, what: str) -> ConnectorError:
    """Why a broker will not do something, which `what` says: "write to topic x"."""
    text, hint, final = _why(error)
    return ConnectorError(f"cannot {what}: {text}", hint, final=final)


def _why(error: kafka.KafkaError) -> tuple[str, str, bool]:
    match error:
        case kafka.TopicAuthorizationFailedError():
            return "access is denied", "the user needs the right to write to the topic", True
        case kafka.TransactionalIdAuthorizationFailed():
            hint = "the user needs the rights to write and describe transactional ids headrace-*"
            return "access to transactional ids is denied", hint, True
        case kafka.ClusterAuthorizationFailedError():
            hint = "the user needs the right to idempotent writes on the cluster"
            return "access is denied", hint, True
        case kafka.UnknownTopicOrPartitionError():
            return "there is no such topic any more", "was it deleted?", True
        case kafka.InvalidTopicError():
            return "that is no name of a topic", "", True
        case kafka.InvalidTimestampError():
            hint = "the topic says which it takes: message.timestamp.before.max.ms, .after.max.ms"
            return "it does not take the timestamp of a row", hint, True
        case InvalidRecordError():
            hint = "a compacted topic takes no row without a key"
            return "the topic does not take a row", hint, True
        case kafka.PolicyViolationError():
            return "it is against a policy of the cluster", "", True
        case kafka.OutOfOrderSequenceNumber() | kafka.UnknownProducerId():
            return "the broker has lost rows that were written before", "", False
        case _ if isinstance(error, LOST):
            hint = "transaction_timeout says how long it may be open"
            return "the broker has ended the transaction", hint, False
    name = getattr(error, "message", type(error).__name__)
    code = f" ({error.errno})" if getattr(error, "errno", -1) > 0 else ""
    said = str(error) or getattr(error, "description", "")
    return f"{name}{code}: {said}" if said else f"{name}{code}", "", False
