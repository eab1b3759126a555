"""What the tasks of a run prove themselves with to each other: a key that follows from the run's secret.

Every task makes the same key and, since Ed25519 signs the same with the same, the same certificate. So nothing has to
be handed out, and who has not got the secret has no certificate that another task would take. Its dates are such that
machines whose clocks are apart agree.
"""

from __future__ import annotations

import datetime
import hmac
import os
import secrets
import socket
import ssl
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager

from .....errors import InvalidInput

NONCE_BYTES, PROOF_BYTES = 32, 32


def encrypts() -> bool:
    """Whether what travels between machines is encrypted: DTF_ENCRYPT, or yes. Raises InvalidInput."""
    value = os.environ.get("DTF_ENCRYPT", "1")
    if value not in ("0", "1"):
        raise InvalidInput(f"DTF_ENCRYPT is 1 or 0. Received: {value!r}", field="DTF_ENCRYPT")
    return value == "1"


class Tls:
    """Both sides of TLS between tasks that know ``secret``."""

    def __init__(self, secret: bytes) -> None:
        certificate, key = _made(secret)
        self._server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._server.num_tickets = 0  # a connection carries data one way, and nothing reads what comes back
        self._client = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        self._client.check_hostname = False  # the certificate is the run's, wherever a task is
        with _as_file(certificate + key) as path:
            for context in (self._server, self._client):
                context.minimum_version = ssl.TLSVersion.TLSv1_3
                context.verify_mode = ssl.CERT_REQUIRED
                context.load_verify_locations(cadata=certificate.decode())
                context.load_cert_chain(path)

    def accepted(self, connected: socket.socket) -> ssl.SSLSocket:
        """The connection once the other side has shown the run's certificate. Raises OSError."""
        return self._server.wrap_socket(connected, server_side=True)

    def dialled(self, connected: socket.socket) -> ssl.SSLSocket:
        """The same for who has called. That the other side took the certificate shows in its first answer."""
        return self._client.wrap_socket(connected)


def proof(secret: bytes, side: bytes, nonces: bytes, said: bytes) -> bytes:
    """What shows, without encryption, that this side knows the secret and has said that."""
    return hmac.digest(secret, side + nonces + said, "sha256")


def is_proof(given: bytes, secret: bytes, side: bytes, nonces: bytes, said: bytes) -> bool:
    """Whether ``given`` is that."""
    return hmac.compare_digest(given, proof(secret, side, nonces, said))


def nonce() -> bytes:
    """What makes a proof good for one connection."""
    return secrets.token_bytes(NONCE_BYTES)


def _made(secret: bytes) -> tuple[bytes, bytes]:
    """The certificate and its key, as PEM."""
    from cryptography import x509
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    seed = hmac.digest(secret, b"the key of the certificate of a run of jupyter_dtf", "sha256")
    key = Ed25519PrivateKey.from_private_bytes(seed)
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "a run of jupyter_dtf")])
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(datetime.datetime(2000, 1, 1))
        .not_valid_after(datetime.datetime(9999, 12, 31))
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(key, None)
    )
    pem = serialization.Encoding.PEM
    plain = serialization.NoEncryption()
    return certificate.public_bytes(pem), key.private_bytes(pem, serialization.PrivateFormat.PKCS8, plain)


@contextmanager
def _as_file(data: bytes) -> Iterator[str]:
    """A path to read the data from, which Python's ``ssl`` wants; on Linux it is on no disk."""
    if hasattr(os, "memfd_create"):
        descriptor = os.memfd_create("run-certificate")
        try:
            os.write(descriptor, data)
            yield f"/proc/self/fd/{descriptor}"
        finally:
            os.close(descriptor)
    else:
        with tempfile.NamedTemporaryFile() as file:
            file.write(data)
            file.flush()
            yield file.name
