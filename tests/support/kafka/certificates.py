"""The keys and certificates of a TLS listener and of its clients, created for each run."""

from __future__ import annotations

import datetime
import ipaddress
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

HOST = "127.0.0.1"
LIFE = datetime.timedelta(days=2)


@dataclass(frozen=True, slots=True)
class Issued:
    """A key and the certificate that belongs to it."""

    key: ec.EllipticCurvePrivateKey
    certificate: x509.Certificate

    def key_pem(self) -> bytes:
        """Unencrypted."""
        return self.key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )

    def pem(self) -> bytes:
        """The certificate alone."""
        return self.certificate.public_bytes(serialization.Encoding.PEM)


@dataclass(frozen=True, slots=True)
class Certificates:
    """Certificate files: of the CA, the broker, a client, and a foreign CA."""

    authority: Path
    broker: Path
    client: Path
    client_key: Path
    stranger: Path
    """No certificate of the broker's or the client's is by it."""

    @classmethod
    def made_in(cls, folder: Path) -> Certificates:
        """New ones."""
        folder.mkdir(parents=True, exist_ok=True)
        authority, stranger = issue("authority"), issue("stranger")
        broker, client = issue("broker", authority), issue("client", authority)
        contents = {
            "authority": authority.pem(),
            "broker": broker.key_pem() + broker.pem() + authority.pem(),
            "client": client.pem(),
            "client_key": client.key_pem(),
            "stranger": stranger.pem(),
        }
        files = {name: folder / f"{name}.pem" for name in contents}
        for name, content in contents.items():
            files[name].write_bytes(content)
        return cls(**files)


def issue(name: str, by: Issued | None = None) -> Issued:
    """One for that name, by an authority; without one it is an authority itself."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    now = datetime.datetime.now(datetime.UTC)
    public = key.public_key()
    signer = by.key if by else key
    here = [x509.DNSName("localhost"), x509.IPAddress(ipaddress.ip_address(HOST))]
    identifier = x509.AuthorityKeyIdentifier.from_issuer_public_key(signer.public_key())
    certificate = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(by.certificate.subject if by else subject)
        .public_key(public)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - LIFE)
        .not_valid_after(now + LIFE)
        .add_extension(x509.BasicConstraints(ca=by is None, path_length=None), critical=True)
        .add_extension(x509.SubjectAlternativeName(here), critical=False)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(public), critical=False)
        .add_extension(identifier, critical=False)
        .sign(signer, hashes.SHA256())
    )
    return Issued(key, certificate)
