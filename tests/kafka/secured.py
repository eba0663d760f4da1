"""A broker that lets in who proves who they are: by password, by token, by certificate.

Its listeners are PLAINTEXT (for tests themselves, which may do anything), SASL_PLAINTEXT, SSL,
MTLS (a certificate of the client is wanted) and SASL_SSL. Who has come in may do all with topics
that nobody has been given: `Secured.only_for` gives one to somebody.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)

from tests.kafka.broker import Broker
from tests.kafka.certificates import Certificates
from tests.kafka.topics import settle

USER, PASSWORD = "alice", "THE-PASSWORD-OF-ALICE"
OTHER, OTHER_PASSWORD = "bob", "THE-PASSWORD-OF-BOB"
USERS: Mapping[str, str] = MappingProxyType({USER: PASSWORD, OTHER: OTHER_PASSWORD})

SCRAM = ("SCRAM-SHA-256", "SCRAM-SHA-512")
MECHANISMS = ("PLAIN", *SCRAM, "OAUTHBEARER")

LISTENERS: Mapping[str, str] = MappingProxyType(
    {
        "PLAINTEXT": "PLAINTEXT",
        "SASL_PLAINTEXT": "SASL_PLAINTEXT",
        "SSL": "SSL",
        "MTLS": "SSL",
        "SASL_SSL": "SASL_SSL",
    }
)

SECURITY = "org.apache.kafka.common.security"


@dataclass(frozen=True, slots=True)
class Secured:
    """It, and what its clients need."""

    broker: Broker
    certificates: Certificates

    def at(self, listener: str) -> str:
        """Where that listener of it is."""
        return self.broker.at(listener)

    def only_for(self, user: str, topic: str) -> None:
        """Let nobody else in there; the others don't even see that it exists."""
        binding = AclBinding(
            ResourceType.TOPIC,
            topic,
            ResourcePatternType.LITERAL,
            f"User:{user}",
            "*",
            AclOperation.ALL,
            AclPermissionType.ALLOW,
        )
        admin = AdminClient({"bootstrap.servers": self.broker.address})
        settle(admin.create_acls([binding]))


def secured_in(folder: Path) -> Secured:
    """Made, it does not run yet."""
    certificates = Certificates.made_in(folder / "certificates")
    users = tuple((how, name, password) for how in SCRAM for name, password in USERS.items())
    settings = {**tls(certificates), **passwords(), **rights()}
    return Secured(Broker(folder, LISTENERS, settings, users), certificates)


def tls(certificates: Certificates) -> dict[str, str]:
    """What it proves itself by, and whom it believes."""
    return {
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(certificates.broker),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(certificates.authority),
        "ssl.client.auth": "requested",
        "listener.name.mtls.ssl.client.auth": "required",
    }


def passwords() -> dict[str, str]:
    """How people log in; those of SCRAM are named when the broker is formatted."""
    names = " ".join(f'user_{name}="{password}"' for name, password in USERS.items())
    modules = {
        "plain": f"{SECURITY}.plain.PlainLoginModule required {names};",
        **{how.lower(): f"{SECURITY}.scram.ScramLoginModule required;" for how in SCRAM},
        "oauthbearer": f"{SECURITY}.oauthbearer.OAuthBearerLoginModule required "
        'unsecuredLoginStringClaim_sub="broker";',
    }
    return {"sasl.enabled.mechanisms": ",".join(MECHANISMS)} | {
        f"listener.name.{listener}.{how}.sasl.jaas.config": module
        for listener in ("sasl_plaintext", "sasl_ssl")
        for how, module in modules.items()
    }


def rights() -> dict[str, str]:
    """Who may do what."""
    return {
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:ANONYMOUS",
        "allow.everyone.if.no.acl.found": "true",
    }
