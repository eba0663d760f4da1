"""The TLS context of the options `ca`, `cert` and `key`."""

from __future__ import annotations

import os
import ssl
from pathlib import Path

from headrace.connectors.kafka.security import Security
from headrace.core.api.failures import ConnectorError
from headrace.core.pipeline.text import Text


def build_tls_context(security: Security, folder: Path) -> ssl.SSLContext | None:
    """Build the TLS context; None without TLS. Raises ConnectorError."""
    if not security.uses_tls:
        return None
    if security.ca is None:
        context = ssl.create_default_context()
    else:
        # A given CA replaces those of the system.
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        _load_ca(context, folder / security.ca.reveal())
    if security.cert is not None:
        _load_certificate(context, security, folder)
    return context


def _load_ca(context: ssl.SSLContext, ca: Path) -> None:
    _check_readable("ca", ca)
    try:
        context.load_verify_locations(ca)
    except ssl.SSLError:
        raise _build_file_error("ca", ca, "it holds no certificate in PEM form") from None


def _load_certificate(context: ssl.SSLContext, security: Security, folder: Path) -> None:
    assert security.cert is not None
    cert = folder / security.cert.reveal()
    key = None if security.key is None else folder / security.key.reveal()
    _check_readable("cert", cert)
    if key is not None:
        _check_readable("key", key)
    try:
        # Without a password, OpenSSL would prompt on the terminal.
        context.load_cert_chain(cert, key, _reveal_password(security.key_password))
    except ssl.SSLError as error:
        raise _explain_rejection(error, cert, key, security.key_password) from None


def _reveal_password(password: Text | None) -> str:
    return "" if password is None else password.reveal()


def _explain_rejection(
    error: ssl.SSLError, cert: Path, key: Path | None, password: Text | None
) -> ConnectorError:
    """Explain why a certificate and its key were rejected."""
    if error.reason == "KEY_VALUES_MISMATCH":
        return _build_file_error("key", key or cert, f"it is not the key of {cert}")
    if error.reason in ("BAD_DECRYPT", "BAD_PASSWORD_READ") or "password" in str(error).lower():
        why = "key_password does not decrypt it" if password else "it is encrypted"
        hint = "" if password else "say key_password: ${secret:NAME}"
        return _build_file_error("key", key or cert, why, hint)
    files = f"{cert} and {key}" if key else str(cert)
    why = "there is no certificate and key in PEM form"
    hint = "" if key else "the key may be in the file of cert, or in one of its own: key"
    return ConnectorError(f"cert: {files}: {why}", hint, exit_status=2, final=True)


def _check_readable(what: str, path: Path) -> None:
    try:
        with path.open("rb"):
            pass
    except OSError as error:
        reason = (error.strerror or os.strerror(error.errno or 0)).lower()
        raise _build_file_error(what, path, reason) from None


def _build_file_error(what: str, path: Path, why: str, hint: str = "") -> ConnectorError:
    return ConnectorError(f"{what}: {path}: {why}", hint, exit_status=2, final=True)
