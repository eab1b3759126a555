"""A cluster's certificate: temporary, in memory, and the same for every role, like Dask's ``Security.temporary``.

Dask's own temporary certificate is not valid before the moment of its creation, so a host with a clock that is slightly
behind would reject it. This certificate is valid from one day before its creation.
"""

from __future__ import annotations

import datetime

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from distributed import Security

CLOCKS_APART = datetime.timedelta(days=1)
VALID = datetime.timedelta(days=3650)
"""How long the certificate is valid: longer than any cluster lives, because connections fail once it has expired."""
_NAME = "jupyter-dtf"


def temporary_security() -> Security:
    """Create a new key and a self-signed certificate. Nobody without the key can join the cluster."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, _NAME)])
    now = datetime.datetime.now(tz=datetime.timezone.utc)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(_NAME)]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - CLOCKS_APART)
        .not_valid_after(now + VALID)
        .sign(key, hashes.SHA256())
        .public_bytes(serialization.Encoding.PEM)
        .decode()
    )
    secret = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    ).decode()
    roles = {
        f"tls_{role}_{part}": text
        for role in ("client", "scheduler", "worker")
        for part, text in (("cert", certificate), ("key", secret))
    }
    return Security(require_encryption=True, tls_ca_file=certificate, **roles)
