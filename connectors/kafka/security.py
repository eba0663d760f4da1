"""The options `security:` of `kafka:`: protocol, authentication and certificates.

Incompatible options are errors of the pipeline, so that no job starts with a password that is
never sent. A secret must stand outside of the file, because files get into version control; a
value interpolated for `${...}` is never shown, wherever it comes from.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, Literal

from headrace.core.pipeline.diagnostics import KEY, InvalidValue, ValueProblem, make_value_error
from headrace.core.pipeline.document_model import DocumentModel, Field
from headrace.core.pipeline.text import Text
from headrace.core.pipeline.values import (
    SCALAR_SCHEMA,
    InvalidScalar,
    ScalarReading,
    Words,
    choice_of,
)

SECURITY_HELP = "The protocol, user and certificates for connections to the brokers."
PROTOCOLS = ("plaintext", "ssl", "sasl_plaintext", "sasl_ssl")
MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER")
TLS_KEYS = ("ca", "cert", "key", "key_password")
SASL_KEYS = ("mechanism", "username", "password", "token")

SECURITY_ALIASES: Mapping[str, str] = {
    **dict.fromkeys(("security_protocol", "security.protocol"), "protocol"),
    **dict.fromkeys(("sasl_mechanism", "sasl.mechanism", "sasl"), "mechanism"),
    **dict.fromkeys(("user", "login", "sasl_plain_username", "sasl.username"), "username"),
    **dict.fromkeys(("pass", "sasl_plain_password", "sasl.password"), "password"),
    **dict.fromkeys(("ca_file", "cafile", "truststore", "ssl.ca.location"), "ca"),
    **dict.fromkeys(("certificate", "cert_file", "keystore"), "cert"),
    **dict.fromkeys(("key_file", "private_key"), "key"),
    **dict.fromkeys(("keypassword", "passphrase", "ssl.key.password"), "key_password"),
    **dict.fromkeys(("access_token", "oauth_token"), "token"),
}

Protocol = Literal["plaintext", "ssl", "sasl_plaintext", "sasl_ssl"]
Mechanism = Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER"]


def _check_secret(text: Text) -> Text:
    """Read a secret, which must be interpolated, because everybody can read the file."""
    if not text:
        raise InvalidScalar
    put_in = [piece for piece in text.pieces if piece.end - piece.start > len("$${")]
    text.secret = True
    if not put_in:
        raise make_value_error(
            text,
            "a secret must not stand in the pipeline's file",
            "refer to it: ${secret:NAME} or ${env:NAME}",
        )
    return text


def _check_path(text: Text) -> Text:
    if not text.strip() or "\0" in text:
        raise InvalidScalar
    return text


secret_reading = ScalarReading(
    "${secret:NAME} or ${env:NAME}", _check_secret, SCALAR_SCHEMA, allows_secret=True
)
path_reading = ScalarReading("a path", _check_path, SCALAR_SCHEMA)

SecretText = Annotated[Text, secret_reading]
PemFile = Annotated[Text, path_reading]


class Security(DocumentModel):
    """The connection to the brokers: protocol, authentication and certificates."""

    key_aliases = SECURITY_ALIASES

    protocol: Annotated[Protocol, choice_of(*PROTOCOLS)] = Field(
        "plaintext",
        description="`ssl` encrypts, `sasl_plaintext` authenticates a user, `sasl_ssl` does both.",
    )
    mechanism: Annotated[Mechanism | None, choice_of(*MECHANISMS)] = Field(
        None, description="How the user is authenticated; required with SASL."
    )
    username: Words | None = Field(None, description="The user, for PLAIN and SCRAM.")
    password: SecretText | None = Field(
        None, description="The user's password: `${secret:NAME}` or `${env:NAME}`."
    )
    token: SecretText | None = Field(
        None,
        description="The token for OAUTHBEARER, as `${secret:NAME}` or `${env:NAME}`; it is read "
        "when the job starts.",
    )
    ca: PemFile | None = Field(
        None,
        description="A PEM file with the CA certificates that brokers are verified by; by default "
        "those of the system. Relative to the pipeline's file, as `cert` and `key` are.",
    )
    cert: PemFile | None = Field(None, description="A PEM file with the client certificate.")
    key: PemFile | None = Field(
        None, description="A PEM file with the key of `cert`, if that file does not hold it."
    )
    key_password: SecretText | None = Field(
        None, description="The password of the key: `${secret:NAME}` or `${env:NAME}`."
    )

    def check_combination(self) -> None:
        if complaints := tuple(_find_conflicts(self)):
            raise InvalidValue(*complaints, partial=self)

    @property
    def uses_tls(self) -> bool:
        """Whether the connection uses TLS."""
        return self.protocol in ("ssl", "sasl_ssl")

    @property
    def uses_sasl(self) -> bool:
        """Whether the connection uses SASL."""
        return self.protocol.startswith("sasl")


def _find_conflicts(security: Security) -> Iterator[ValueProblem]:
    given_keys = [key for key in Security.model_fields if getattr(security, key) is not None]
    if not security.uses_tls:
        for key in given_keys:
            if key in TLS_KEYS:
                yield _build_protocol_complaint(key, security.protocol, "ssl or sasl_ssl")
    if not security.uses_sasl:
        for key in given_keys:
            if key in SASL_KEYS:
                yield _build_protocol_complaint(
                    key, security.protocol, "sasl_ssl or sasl_plaintext"
                )
        needs: tuple[str, ...] = ()
    elif security.mechanism is None:
        yield ValueProblem(
            message=f'"{security.protocol}" needs "mechanism" as well',
            hint=f"one of {', '.join(MECHANISMS)}",
        )
        return
    else:
        yield from _find_foreign_keys(security.mechanism, given_keys)
        needs = _list_required_keys(security.mechanism)
    for key in needs:
        if key not in given_keys:
            yield ValueProblem(message=f'{security.mechanism} needs "{key}" as well')
    yield from _find_unpaired_keys(given_keys)


def _build_protocol_complaint(key: str, protocol: str, wanted: str) -> ValueProblem:
    message = f'"{key}" does not go with "protocol: {protocol}"'
    return ValueProblem(message=message, hint=f"say protocol: {wanted}", at=(key, KEY))


def _list_required_keys(mechanism: str) -> tuple[str, ...]:
    return ("token",) if mechanism == "OAUTHBEARER" else ("username", "password")


def _find_foreign_keys(mechanism: str, given_keys: list[str]) -> Iterator[ValueProblem]:
    """Yield a complaint for each option of another mechanism."""
    for key in ("username", "password", "token"):
        if key in given_keys and key not in _list_required_keys(mechanism):
            hint = f"it takes {' and '.join(_list_required_keys(mechanism))}"
            yield ValueProblem(
                message=f'"{key}" does not go with "mechanism: {mechanism}"',
                hint=hint,
                at=(key, KEY),
            )


def _find_unpaired_keys(given_keys: list[str]) -> Iterator[ValueProblem]:
    if "key" in given_keys and "cert" not in given_keys:
        message = '"key" needs "cert" as well'
        yield ValueProblem(message=message, hint="the certificate of that key", at=("key", KEY))
    if "key_password" in given_keys and not {"key", "cert"} & set(given_keys):
        message = '"key_password" needs "key" as well'
        yield ValueProblem(message=message, at=("key_password", KEY))
