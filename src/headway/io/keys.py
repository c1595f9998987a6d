"""Keys in files: an Ed25519 key pair as PEM, the private one readable by its owner alone.

`openssl genpkey -algorithm ed25519` makes the same kind of files.
"""

import os
import stat
from pathlib import Path

from headway.errors import BadInput
from headway.io.files import read_file, write_atomically

# A PEM file of such a key has some 120 bytes.
MOST_BYTES = 16384
PUBLIC_SUFFIX = ".pub"


def make_keys(path: Path) -> tuple[Path, bytes]:
    """Write a new private key to `path` and its public key beside it (`.pub`); returns the latter's path and content."""
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    public_path = path.with_name(f"{path.name}{PUBLIC_SUFFIX}")
    for taken in (path, public_path):
        if taken.exists() or taken.is_symlink():
            raise BadInput(f"{taken} is there already: keys are never written over, give another path")
    key = Ed25519PrivateKey.generate()
    pem = serialization.Encoding.PEM
    private = key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o600)
        with open(handle, "wb") as file:
            file.write(private)
    except OSError as error:
        raise BadInput(f"cannot write {path}: {error.strerror}") from None
    public = key.public_key().public_bytes(pem, serialization.PublicFormat.SubjectPublicKeyInfo)
    write_atomically(public_path, public, 0o644)
    return public_path, key.public_key().public_bytes_raw()


def read_private_key(path: Path) -> bytes:
    """Return the 32 bytes of a private key; refuse a file that others can read."""
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    raw = _read(path)
    try:
        key = serialization.load_pem_private_key(raw, password=None)
    except Exception:  # cryptography raises many kinds
        key = None
    if not isinstance(key, Ed25519PrivateKey):
        if b"PUBLIC" in raw:
            private = path.with_suffix("")
            name = f", {private}" if path.suffix == PUBLIC_SUFFIX and private.exists() else ""
            raise BadInput(f"{path}: this is a public key: give its private key{name}")
        raise BadInput(f"{path}: not a private Ed25519 key in PEM without a password; `headway fabric key` makes one")
    if stat.S_IMODE(path.stat().st_mode) & 0o077:
        raise BadInput(f"{path}: others can read this private key: chmod 600 {path}")
    return key.private_bytes_raw()


def read_public_key(path: Path) -> bytes:
    """The 32 bytes of a public key."""
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    raw = _read(path)
    try:
        key = serialization.load_pem_public_key(raw)
    except Exception:  # cryptography raises many kinds
        key = None
    if not isinstance(key, Ed25519PublicKey):
        if b"PRIVATE" in raw:
            raise BadInput(f"{path}: this is a private key: give its public key, {path.name}{PUBLIC_SUFFIX}")
        raise BadInput(f"{path}: not a public Ed25519 key in PEM: `headway fabric key` makes one")
    return key.public_bytes_raw()


def _read(path: Path) -> bytes:
    try:
        return read_file(path, MOST_BYTES)
    except OSError as error:
        raise BadInput(f"{path}: the key cannot be read: {error.strerror}") from None
