"""Authentication between the tasks of a run, with a key derived from the run's secret.

Every task derives the same key and, since Ed25519 signatures are deterministic, the same certificate. So no certificate
has to be distributed, and only a task that knows the secret can create a certificate that other tasks accept. The
certificate's validity dates tolerate any difference between the machines' clocks.
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
    """Return whether traffic between machines is encrypted, according to DTF_ENCRYPT; True by default.

    Raises InvalidInput for an invalid value.
    """
    value = os.environ.get("DTF_ENCRYPT", "1")
    if value not in ("0", "1"):
        raise InvalidInput(f"`DTF_ENCRYPT` must be 0 or 1, got {value!r}", field="DTF_ENCRYPT")
    return value == "1"


class Tls:
    """The contexts for both sides of TLS connections between tasks that know ``secret``."""

    def __init__(self, secret: bytes) -> None:
        certificate, key = _made(secret)
        self._server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._server.num_tickets = 0  # connections are one-way, and the client would never read tickets
        self._client = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        self._client.check_hostname = False  # the certificate belongs to the run, on any machine
        with _as_file(certificate + key) as path:
            for context in (self._server, self._client):
                context.minimum_version = ssl.TLSVersion.TLSv1_3
                context.options &= ~getattr(ssl, "OP_ENABLE_KTLS", 0x8)  # the kernel would encrypt frames again
                context.verify_mode = ssl.CERT_REQUIRED
                context.load_verify_locations(cadata=certificate.decode())
                context.load_cert_chain(path)

    def accepted(self, connected: socket.socket) -> ssl.SSLSocket:
        """Do the server's part of the handshake, and verify the client's certificate. Raises OSError on failure."""
        return self._server.wrap_socket(connected, server_side=True)

    def dialled(self, connected: socket.socket) -> ssl.SSLSocket:
        """Do the client's part of the handshake. The server's first reply shows whether it accepted the certificate."""
        return self._client.wrap_socket(connected)


def proof(secret: bytes, side: bytes, nonces: bytes, said: bytes) -> bytes:
    """Return a proof, for unencrypted connections, that this side knows the secret and has sent ``said``."""
    return hmac.digest(secret, side + nonces + said, "sha256")


def is_proof(given: bytes, secret: bytes, side: bytes, nonces: bytes, said: bytes) -> bool:
    """Return whether ``given`` is the correct proof."""
    return hmac.compare_digest(given, proof(secret, side, nonces, said))


def nonce() -> bytes:
    """Return a nonce, which makes a proof valid for only one connection."""
    return secrets.token_bytes(NONCE_BYTES)


def _made(secret: bytes) -> tuple[bytes, bytes]:
    """Return the certificate and its key as PEM."""
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
    """Yield the path of a file with the data, because Python's ``ssl`` requires a file. On Linux, it is not on disk."""
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
