"""Reasons for a failed connection to a broker: exceptions as messages and hints for users."""

from __future__ import annotations

import socket
import ssl
from dataclasses import dataclass

from aiokafka.errors import (
    IllegalSaslStateError,
    KafkaError,
    SaslAuthenticationFailed,
    UnsupportedSaslMechanismError,
)

from headrace.connectors.kafka.security import Security

NO_TLS = ("WRONG_VERSION_NUMBER", "UNEXPECTED_EOF_WHILE_READING", "RECORD_LAYER_FAILURE")


@dataclass(frozen=True, slots=True)
class Why:
    """The reason of a failure, and a hint."""

    text: str
    hint: str = ""


def why(error: BaseException, security: Security) -> Why:
    """Explain an exception of aiokafka, of asyncio or of the system."""
    match error:
        case ssl.SSLCertVerificationError():
            return _untrusted(error)
        case ssl.SSLError():
            return _tls(error)
        case socket.gaierror():
            return Why("there is no such host", "check brokers: host:port")
        case ConnectionRefusedError():
            return Why("nothing listens there", "is the broker running, and is that its port?")
        case TimeoutError():
            return Why("it accepts connections, but does not answer", _other_protocol(security))
        case SaslAuthenticationFailed():
            return _unknown(security)
        case UnsupportedSaslMechanismError():
            return Why(_enabled(error, security), "check security: {mechanism: ...}")
        case IllegalSaslStateError():
            protocol = "ssl" if security.encrypts else "plaintext"
            return Why("it expects no user there", f"say security: {{protocol: {protocol}}}")
        case AssertionError() | ValueError():
            return Why("its response is not that of a Kafka broker", _other_protocol(security))
    cause = error.__cause__
    if cause is not None and isinstance(cause, ssl.SSLError):
        return why(cause, security)
    if isinstance(error, KafkaError | EOFError | ConnectionError):
        return Why("it closes the connection", _other_protocol(security))
    if isinstance(error, OSError):
        return Why((error.strerror or str(error)).lower())
    return Why(type(error).__name__)


def nothing_known(security: Security) -> Why:
    """Explain a broker's empty response."""
    if security.mechanism == "OAUTHBEARER":
        return _unknown(security)
    return Why("it knows of no broker yet", "it may have just been started")


def _untrusted(error: ssl.SSLCertVerificationError) -> Why:
    said = error.verify_message
    if error.verify_code in (62, 64):  # of a host, of an address
        hint = "write brokers with a name that the certificate has"
        return Why(f"its certificate is for another name ({said[:1].lower()}{said[1:]})", hint)
    if error.verify_code == 10:
        return Why("its certificate has expired")
    hint = "name a trusted CA: security: {ca: FILE}"
    return Why(f"its certificate is not trusted ({said})", hint)


def _tls(error: ssl.SSLError) -> Why:
    reason = error.reason or ""
    if reason in NO_TLS:
        hint = "say security: {protocol: plaintext}, or sasl_plaintext where it asks for a user"
        return Why("it does not speak TLS there", hint)
    if "CERTIFICATE_REQUIRED" in reason or "HANDSHAKE_FAILURE" in reason:
        return Why("it requires a client certificate", "say security: {cert: FILE, key: FILE}")
    if "ALERT" in reason and ("CERTIFICATE" in reason or "UNKNOWN_CA" in reason):
        said = reason.lower().replace("_", " ")
        return Why(f"it rejects the client certificate ({said})", "check cert and key")
    return Why(f"TLS fails: {reason.lower().replace('_', ' ') or error}")


def _unknown(security: Security) -> Why:
    if security.mechanism == "OAUTHBEARER":
        return Why("it rejects the token", "is it for this cluster, and has it expired?")
    who = f"{security.mechanism}, user {security.username}"
    return Why(f"it rejects the user and password ({who})", "check security")


def _enabled(error: BaseException, security: Security) -> str:
    _, _, enabled = str(error).partition("Enabled mechanisms are: ")
    has = f", but {enabled.strip('[]').replace(chr(39), '')}" if enabled else ""
    return f"it does not support {security.mechanism}{has}"


def _other_protocol(security: Security) -> str:
    if security.encrypts:
        plain = "sasl_plaintext" if security.names_a_user else "plaintext"
        return f"it may not speak TLS there: say security: {{protocol: {plain}}}"
    tls = "sasl_ssl" if security.names_a_user else "ssl"
    sasl = "" if security.names_a_user else ", or sasl_plaintext where it asks for a user"
    return f"it may speak TLS there: say security: {{protocol: {tls}}}{sasl}"
