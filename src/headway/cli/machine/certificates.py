"""The certificate and key of a manager that speaks TLS, checked before anything starts."""

import ssl
from pathlib import Path

from headway.cli.manager_options import note
from headway.client.folder import CERTIFICATE_FILE
from headway.errors import BadInput
from headway.io.files import read_file

END = "-----END CERTIFICATE-----"
# A certificate of PEM with its chain has some 10 KB.
MOST_BYTES = 1 << 20


def checked(certificate: Path | None, key: Path | None) -> tuple[str, str] | None:
    """The two files, if the server can use them; None where neither is given."""
    if certificate is None and key is None:
        return None
    if certificate is None or key is None:
        raise BadInput(
            "--tls-cert and --tls-key go together: the certificate (with its chain) and its key, both in PEM"
        )
    for option, path in (("--tls-cert", certificate), ("--tls-key", key)):
        try:
            read_file(path, MOST_BYTES)
        except OSError as error:
            raise BadInput(f"{option} {path}: {error.strerror}") from None
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(certificate, key, password=_no_password)
    except ssl.SSLError as error:
        mismatch = error.reason == "KEY_VALUES_MISMATCH"
        why = "the key is not that of the certificate" if mismatch else "these are not a certificate and a key in PEM"
        raise BadInput(f"--tls-cert {certificate}, --tls-key {key}: {why}") from None
    if key.stat().st_mode & 0o077:
        note(f"headway: {key} can be read by others: chmod 600 {key}")
    return str(certificate), str(key)


def publish(certificate: str, data: Path) -> Path:
    """Leave the certificate (not its chain) in the data folder, where this machine's commands and jobs find it and trust it alone."""
    from headway.io.files import write_atomically

    first, end, _ = read_file(certificate, MOST_BYTES).decode("ascii").partition(END)
    path = (data / CERTIFICATE_FILE).absolute()
    write_atomically(path, first + end + "\n", 0o644)
    return path


def _no_password() -> str:
    raise BadInput("--tls-key: the key has a password, and nobody is there to type it: give one without")
