"""Errors of brokers as messages for users, and which errors are transient and retried."""

from __future__ import annotations

from aiokafka import errors as kafka

from headrace.core.api.failures import ConnectorError

UNREACHABLE_ERRORS = (
    kafka.KafkaConnectionError,
    kafka.NodeNotReadyError,
    kafka.RequestTimedOutError,
    kafka.StaleMetadata,
    kafka.CorrelationIdError,
)
"""Errors of a broker that does not answer."""
MOVED_ERRORS = (
    kafka.CoordinatorNotAvailableError,
    kafka.NotCoordinatorError,
    kafka.CoordinatorLoadInProgressError,
)
"""Errors of a coordinator of transactions or groups that is moving to another broker."""
LOST_TRANSACTION_ERRORS = (
    kafka.InvalidProducerEpoch,
    kafka.ProducerFenced,
    kafka.InvalidTxnState,
    kafka.InvalidProducerIdMapping,
)
"""Errors of a transaction that is no longer open, and was not committed by this request."""
OUT_OF_RANGE, ACCESS_DENIED = 1, 29
"""Error codes in responses for a partition."""


class InvalidRecordError(kafka.BrokerResponseError):  # type: ignore[misc] # it has no types
    """A rejected record, which aiokafka does not define."""

    errno = 87
    message = "INVALID_RECORD"


class FencedLeaderEpochError(kafka.BrokerResponseError):  # type: ignore[misc]
    """An outdated leader epoch, which aiokafka does not define."""

    errno = 74
    message = "FENCED_LEADER_EPOCH"
    retriable = True


class UnknownLeaderEpochError(kafka.BrokerResponseError):  # type: ignore[misc]
    """A leader epoch that the broker has not learned yet, which aiokafka does not define."""

    errno = 75
    message = "UNKNOWN_LEADER_EPOCH"
    retriable = True


class OffsetNotAvailableError(kafka.BrokerResponseError):  # type: ignore[misc]
    """An end offset that a new leader does not know yet, which aiokafka does not define."""

    errno = 78
    message = "OFFSET_NOT_AVAILABLE"
    retriable = True


EXTRA_ERRORS = {
    74: FencedLeaderEpochError,
    75: UnknownLeaderEpochError,
    78: OffsetNotAvailableError,
    87: InvalidRecordError,
    90: kafka.ProducerFenced,
}


class NoBrokerAnswered(kafka.KafkaError):  # type: ignore[misc] # it has no types
    """No broker answered within the time limit."""

    def __str__(self) -> str:
        return "no broker has answered in time"


class TransientError(kafka.KafkaError):  # type: ignore[misc] # it has no types
    """A transient error: a partition is moving, or a topic was just created."""

    retriable = True

    def __str__(self) -> str:
        return str(self.args[0])


def build_error(code: int) -> kafka.KafkaError:
    """Build the error of a code in a response."""
    return EXTRA_ERRORS[code]() if code in EXTRA_ERRORS else kafka.for_code(code)()


def is_transient(error: kafka.KafkaError) -> bool:
    """Whether the error is transient, so that a retry may succeed."""
    again = (
        *UNREACHABLE_ERRORS,
        *MOVED_ERRORS,
        kafka.ConcurrentTransactions,
        kafka.ReplicaNotAvailableError,
    )
    return isinstance(error, again) or bool(getattr(error, "retriable", False))


def has_moved(error: kafka.KafkaError) -> bool:
    """Whether another broker may be the right one to request."""
    return isinstance(error, (*UNREACHABLE_ERRORS, *MOVED_ERRORS))


def translate_error(error: kafka.KafkaError, what: str) -> ConnectorError:
    """Build the error of a refused operation; `what` names it, as in `write to topic "x"`."""
    text, hint, final = _explain_error(error, what)
    return ConnectorError(f"cannot {what}: {text}", hint, final=final)


def describe_error(error: kafka.KafkaError) -> str:
    """Describe an error that has no better text, or that no broker answers."""
    if isinstance(error, UNREACHABLE_ERRORS):
        return "no broker answers"
    if isinstance(error, kafka.BrokerResponseError):
        return f"the broker says {error.message} ({error.errno})"
    return str(error)


def _explain_error(error: kafka.KafkaError, what: str) -> tuple[str, str, bool]:
    match error:
        case kafka.TopicAuthorizationFailedError():
            return "access is denied", f"the user needs the right to {what}", True
        case kafka.TransactionalIdAuthorizationFailed():
            hint = "the user needs the rights to write and describe transactional ids headrace-*"
            return "access to transactional ids is denied", hint, True
        case kafka.ClusterAuthorizationFailedError():
            hint = "the user needs the right to idempotent writes on the cluster"
            return "access is denied", hint, True
        case kafka.UnknownTopicOrPartitionError():
            return "there is no such topic any more", "was it deleted?", True
        case kafka.InvalidTopicError():
            return "the name of the topic is invalid", "", True
        case kafka.InvalidTimestampError():
            hint = "see message.timestamp.before.max.ms and .after.max.ms of the topic"
            return "the topic rejects the timestamp of a row", hint, True
        case InvalidRecordError():
            hint = "a compacted topic rejects rows without a key"
            return "the topic rejects a row", hint, True
        case kafka.PolicyViolationError():
            return "a policy of the cluster forbids it", "", True
        case kafka.OutOfOrderSequenceNumber() | kafka.UnknownProducerId():
            return "the broker has lost rows that were written before", "", False
        case _ if isinstance(error, LOST_TRANSACTION_ERRORS):
            hint = "transaction_timeout says how long it may be open"
            return "the broker has ended the transaction", hint, False
    return describe_error(error), "", False
