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
"""Somebody else coordinates a transaction or a group now, or soon."""
LOST = (
    kafka.InvalidProducerEpoch,
    kafka.ProducerFenced,
    kafka.InvalidTxnState,
    kafka.InvalidProducerIdMapping,
)
"""The transaction is not open any more, and was not committed by whoever asks."""
OUT_OF_RANGE, DENIED = 1, 29
"""Codes in answers for a partition."""


class InvalidRecordError(kafka.BrokerResponseError):  # type: ignore[misc] # it has no types
    """aiokafka does not know it."""

    errno = 87
    message = "INVALID_RECORD"


class FencedLeaderEpochError(kafka.BrokerResponseError):  # type: ignore[misc]
    """aiokafka does not know it, nor the two behind it."""

    errno = 74
    message = "FENCED_LEADER_EPOCH"
    retriable = True


class UnknownLeaderEpochError(kafka.BrokerResponseError):  # type: ignore[misc]
    """The broker has not heard of the leader yet."""

    errno = 75
    message = "UNKNOWN_LEADER_EPOCH"
    retriable = True


class OffsetNotAvailableError(kafka.BrokerResponseError):  # type: ignore[misc]
    """A new leader does not know the end yet."""

    errno = 78
    message = "OFFSET_NOT_AVAILABLE"
    retriable = True


UNNAMED = {
    74: FencedLeaderEpochError,
    75: UnknownLeaderEpochError,
    78: OffsetNotAvailableError,
    87: InvalidRecordError,
    90: kafka.ProducerFenced,
}


class NobodyAnswers(kafka.KafkaError):  # type: ignore[misc] # it has no types
    """Not within the time that there was."""

    def __str__(self) -> str:
        return "nobody has answered in time"


class Later(kafka.KafkaError):  # type: ignore[misc] # it has no types
    """Brokers answer, but not yet what was asked: a partition moves, or a topic is just made."""

    retriable = True

    def __str__(self) -> str:
        return str(self.args[0])


def of_code(code: int) -> kafka.KafkaError:
    """What a broker answered with."""
    return UNNAMED[code]() if code in UNNAMED else kafka.for_code(code)()


def passes(error: kafka.KafkaError) -> bool:
    """Whether it may go better the next time."""
    again = (*AWAY, *MOVED, kafka.ConcurrentTransactions, kafka.ReplicaNotAvailableError)
    return isinstance(error, again) or bool(getattr(error, "retriable", False))


def has_moved(error: kafka.KafkaError) -> bool:
    """Whether somebody else may be the one to ask."""
    return isinstance(error, (*AWAY, *MOVED))


def refusal(error: kafka.KafkaError, what: str) -> ConnectorError:
    """Why a broker will not do something, which `what` says: `write to topic "x"`."""
    text, hint, final = _why(error, what)
    return ConnectorError(f"cannot {what}: {text}", hint, final=final)


def said(error: kafka.KafkaError) -> str:
    """What a broker says that nobody has better words for, or that none does."""
    if isinstance(error, AWAY):
        return "no broker answers"
    if isinstance(error, kafka.BrokerResponseError):
        return f"the broker says {error.message} ({error.errno})"
    return str(error)


def _why(error: kafka.KafkaError, what: str) -> tuple[str, str, bool]:
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
    return said(error), "", False
