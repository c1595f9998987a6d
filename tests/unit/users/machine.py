"""The command line in a process of its own, and certificates, for tests of the machine that a manager runs on."""

import datetime
import ipaddress
import subprocess
import sys
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from tests.waiting import PATIENCE_S

RUN = "from headway.cli.main import main; main()"


def headway(*words: object, **given: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", RUN, *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S, check=False, **given)  # type: ignore[call-overload,no-any-return]


def certificate(folder: Path, name: str, *addresses: str, days: int = 30) -> tuple[Path, Path]:
    """A certificate that signed itself, for these addresses, and its key."""
    key, now = ec.generate_private_key(ec.SECP256R1()), datetime.datetime.now(datetime.UTC)
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    names = [x509.IPAddress(ipaddress.ip_address(each)) for each in addresses] or [x509.DNSName(name)]
    made = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=60))
        .not_valid_after(now + datetime.timedelta(days=days))
        .add_extension(x509.SubjectAlternativeName(names), False)
        .sign(key, hashes.SHA256())
    )
    pem, plain = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8
    (folder / f"{name}.pem").write_bytes(made.public_bytes(pem))
    (folder / f"{name}.key").write_bytes(key.private_bytes(pem, plain, serialization.NoEncryption()))
    (folder / f"{name}.key").chmod(0o600)
    locked = key.private_bytes(pem, plain, serialization.BestAvailableEncryption(b"secret"))
    (folder / f"{name}.locked").write_bytes(locked)
    return folder / f"{name}.pem", folder / f"{name}.key"
