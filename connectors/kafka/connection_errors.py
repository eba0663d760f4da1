"""Reasons for a failed connection to a broker: exceptions as messages and hints for users."""

from __future__ import annotations

import socket
import ssl

from aiokafka.errors import (
    IllegalSaslStateError,
    KafkaError,
    SaslAuthenticationFailed,
    UnsupportedSaslMechanismError,
)

from headrace.connectors.kafka.security import Security
from headrace.core.types.lazy_dataclass import dataclass

NO_TLS_REASONS = ("WRONG_VERSION_NUMBER", "UNEXPECTED_EOF_WHILE_READING", "RECORD_LAYER_FAILURE")


@dataclass(frozen=True, slots=True)
class FailureReason:
    """The reason of a failure, and a hint."""

    text: str
    hint: str = ""


def explain_error(error: BaseException, security: Security) -> FailureReason:
    """Explain an exception of aiokafka, of asyncio or of the system."""
    match error:
        case ssl.SSLCertVerificationError():
            return _explain_certificate(error)
        case ssl.SSLError():
            return _explain_tls_error(error)
        case socket.gaierror():
            return FailureReason("there is no such host", "check brokers: host:port")
        case ConnectionRefusedError():
            return FailureReason(
                "nothing listens there", "is the broker running, and is that its port?"
            )
        case TimeoutError():
            return FailureReason(
                "it accepts connections, but does not answer", _suggest_protocol(security)
            )
        case SaslAuthenticationFailed():
            return _explain_rejected_login(security)
        case UnsupportedSaslMechanismError():
            return FailureReason(
                _describe_mechanisms(error, security), "check security: {mechanism: ...}"
            )
        case IllegalSaslStateError():
            protocol = "ssl" if security.uses_tls else "plaintext"
            return FailureReason(
                "it expects no user there", f"say security: {{protocol: {protocol}}}"
            )
        case AssertionError() | ValueError():
            return FailureReason(
                "its response is not that of a Kafka broker", _suggest_protocol(security)
            )
    cause = error.__cause__
    if cause is not None and isinstance(cause, ssl.SSLError):
        return explain_error(cause, security)
    if isinstance(error, KafkaError | EOFError | ConnectionError):
        return FailureReason("it closes the connection", _suggest_protocol(security))
    if isinstance(error, OSError):
        return FailureReason((error.strerror or str(error)).lower())
    return FailureReason(type(error).__name__)


def explain_empty_response(security: Security) -> FailureReason:
    """Explain a broker's empty response."""
    if security.mechanism == "OAUTHBEARER":
        return _explain_rejected_login(security)
    return FailureReason("it knows of no broker yet", "it may have just been started")


def _explain_certificate(error: ssl.SSLCertVerificationError) -> FailureReason:
    message = error.verify_message
    if error.verify_code in (62, 64):  # of a host, of an address
        hint = "write brokers with a name that the certificate has"
        return FailureReason(
            f"its certificate is for another name ({message[:1].lower()}{message[1:]})", hint
        )
    if error.verify_code == 10:
        return FailureReason("its certificate has expired")
    hint = "name a trusted CA: security: {ca: FILE}"
    return FailureReason(f"its certificate is not trusted ({message})", hint)


def _explain_tls_error(error: ssl.SSLError) -> FailureReason:
    reason = error.reason or ""
    if reason in NO_TLS_REASONS:
        hint = "say security: {protocol: plaintext}, or sasl_plaintext where it asks for a user"
        return FailureReason("it does not speak TLS there", hint)
    if "CERTIFICATE_REQUIRED" in reason or "HANDSHAKE_FAILURE" in reason:
        return FailureReason(
            "it requires a client certificate", "say security: {cert: FILE, key: FILE}"
        )
    if "ALERT" in reason and ("CERTIFICATE" in reason or "UNKNOWN_CA" in reason):
        message = reason.lower().replace("_", " ")
        return FailureReason(f"it rejects the client certificate ({message})", "check cert and key")
    return FailureReason(f"TLS fails: {reason.lower().replace('_', ' ') or error}")


def _explain_rejected_login(security: Security) -> FailureReason:
    if security.mechanism == "OAUTHBEARER":
        return FailureReason("it rejects the token", "is it for this cluster, and has it expired?")
    who = f"{security.mechanism}, user {security.username}"
    return FailureReason(f"it rejects the user and password ({who})", "check security")


def _describe_mechanisms(error: BaseException, security: Security) -> str:
    _, _, enabled = str(error).partition("Enabled mechanisms are: ")
    has = f", but {enabled.strip('[]').replace(chr(39), '')}" if enabled else ""
    return f"it does not support {security.mechanism}{has}"


def _suggest_protocol(security: Security) -> str:
    if security.uses_tls:
        plain = "sasl_plaintext" if security.uses_sasl else "plaintext"
        return f"it may not speak TLS there: say security: {{protocol: {plain}}}"
    tls = "sasl_ssl" if security.uses_sasl else "ssl"
    sasl = "" if security.uses_sasl else ", or sasl_plaintext where it asks for a user"
    return f"it may speak TLS there: say security: {{protocol: {tls}}}{sasl}"
