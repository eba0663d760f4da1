"""A broker that authenticates clients by password, by token, or by certificate.

Its listeners are PLAINTEXT (for tests themselves, which may do anything), SASL_PLAINTEXT, SSL,
MTLS (a client certificate is required) and SASL_SSL. Authenticated users have all rights on topics
without an owner: `Secured.only_for` makes a user the owner of a topic.
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

from tests.support.kafka.broker import Broker
from tests.support.kafka.certificates import Certificates
from tests.support.kafka.topics import settle

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
        """Return the address of a listener."""
        return self.broker.at(listener)

    def only_for(self, user: str, topic: str) -> None:
        """Deny all other users access to a topic, which they do not even see."""
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
    """The certificate of the broker, and the CA that it trusts."""
    return {
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(certificates.broker),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(certificates.authority),
        "ssl.client.auth": "requested",
        "listener.name.mtls.ssl.client.auth": "required",
    }


def passwords() -> dict[str, str]:
    """The login configuration; SCRAM users are added when the broker is formatted."""
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
    """The access rights."""
    return {
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:ANONYMOUS",
        "allow.everyone.if.no.acl.found": "true",
    }
