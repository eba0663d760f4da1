"""The options `security:` of `kafka:`: protocol, authentication and certificates.

Incompatible options are errors of the pipeline, so that no job starts with a password that is
never sent. A secret must stand outside of the file, because files get into version control; a
value interpolated for `${...}` is never shown, wherever it comes from.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, Literal

from pydantic import Field, model_validator

from headrace.core.pipeline.complaints import KEY, Complaint, Unread, wrong
from headrace.core.pipeline.part import Part
from headrace.core.pipeline.text import Text
from headrace.core.pipeline.values import SCALAR, Reads, Unfit, Words, choice

SECURITY = "The protocol, user and certificates for connections to the brokers."
PROTOCOLS = ("plaintext", "ssl", "sasl_plaintext", "sasl_ssl")
MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER")
OF_TLS = ("ca", "cert", "key", "key_password")
OF_SASL = ("mechanism", "username", "password", "token")

HABITS: Mapping[str, str] = {
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


def _hidden(text: Text) -> Text:
    """Read a secret, which must be interpolated, because everybody can read the file."""
    if not text:
        raise Unfit
    put_in = [piece for piece in text.pieces if piece.end - piece.start > len("$${")]
    text.secret = True
    if not put_in:
        raise wrong(
            text,
            "a secret must not stand in the pipeline's file",
            "refer to it: ${secret:NAME} or ${env:NAME}",
        )
    return text


def _path(text: Text) -> Text:
    if not text.strip() or "\0" in text:
        raise Unfit
    return text


hidden = Reads("${secret:NAME} or ${env:NAME}", _hidden, SCALAR, secret=True)
path = Reads("a path", _path, SCALAR)

Hidden = Annotated[Text, hidden]
PemFile = Annotated[Text, path]


class Security(Part):
    """The connection to the brokers: protocol, authentication and certificates."""

    habits = HABITS

    protocol: Annotated[Protocol, choice(*PROTOCOLS)] = Field(
        "plaintext",
        description="`ssl` encrypts, `sasl_plaintext` authenticates a user, `sasl_ssl` does both.",
    )
    mechanism: Annotated[Mechanism | None, choice(*MECHANISMS)] = Field(
        None, description="How the user is authenticated; required with SASL."
    )
    username: Words | None = Field(None, description="The user, for PLAIN and SCRAM.")
    password: Hidden | None = Field(
        None, description="The user's password: `${secret:NAME}` or `${env:NAME}`."
    )
    token: Hidden | None = Field(
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
    key_password: Hidden | None = Field(
        None, description="The password of the key: `${secret:NAME}` or `${env:NAME}`."
    )

    @model_validator(mode="after")
    def _goes_together(self) -> Security:
        if complaints := tuple(_clashes(self)):
            raise Unread(*complaints, partial=self)
        return self

    @property
    def encrypts(self) -> bool:
        """Whether the connection uses TLS."""
        return self.protocol in ("ssl", "sasl_ssl")

    @property
    def names_a_user(self) -> bool:
        """Whether the connection uses SASL."""
        return self.protocol.startswith("sasl")


def _clashes(security: Security) -> Iterator[Complaint]:
    given = [key for key in Security.model_fields if getattr(security, key) is not None]
    if not security.encrypts:
        for key in given:
            if key in OF_TLS:
                yield _beside(key, security.protocol, "ssl or sasl_ssl")
    if not security.names_a_user:
        for key in given:
            if key in OF_SASL:
                yield _beside(key, security.protocol, "sasl_ssl or sasl_plaintext")
        needs: tuple[str, ...] = ()
    elif security.mechanism is None:
        yield Complaint(
            message=f'"{security.protocol}" needs "mechanism" as well',
            hint=f"one of {', '.join(MECHANISMS)}",
        )
        return
    else:
        yield from _alien(security.mechanism, given)
        needs = _needs(security.mechanism)
    for key in needs:
        if key not in given:
            yield Complaint(message=f'{security.mechanism} needs "{key}" as well')
    yield from _unpaired(given)


def _beside(key: str, protocol: str, wanted: str) -> Complaint:
    message = f'"{key}" is of no use with protocol: {protocol}'
    return Complaint(message=message, hint=f"say protocol: {wanted}", at=(key, KEY))


def _needs(mechanism: str) -> tuple[str, ...]:
    return ("token",) if mechanism == "OAUTHBEARER" else ("username", "password")


def _alien(mechanism: str, given: list[str]) -> Iterator[Complaint]:
    """Yield a complaint for each option of another mechanism."""
    for key in ("username", "password", "token"):
        if key in given and key not in _needs(mechanism):
            hint = f"it takes {' and '.join(_needs(mechanism))}"
            yield Complaint(
                message=f'"{key}" is of no use with {mechanism}', hint=hint, at=(key, KEY)
            )


def _unpaired(given: list[str]) -> Iterator[Complaint]:
    if "key" in given and "cert" not in given:
        message = '"key" needs "cert" as well'
        yield Complaint(message=message, hint="the certificate of that key", at=("key", KEY))
    if "key_password" in given and not {"key", "cert"} & set(given):
        message = '"key_password" needs "key" as well'
        yield Complaint(message=message, at=("key_password", KEY))
