"""Who issued a certificate: Ed25519 over its canonical form (RFC 8032, by `cryptography`).

Part of the verifier as well as of the issuer, since a signature means the same to both. A signature says who issued a certificate, not that
it is still in force: circuits may have moved and jobs ended since.
"""

import base64
import hashlib
from typing import Any

ALGORITHM = "ed25519"
# Signed with the content, so that a signature made for something else by the same key cannot be used here.
PURPOSE = b"headway certificate 1\n"


def sign(private: bytes, content: bytes) -> dict[str, str]:
    """The signature of `content` by a private key of 32 bytes, as certificates carry it."""
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    key = Ed25519PrivateKey.from_private_bytes(private)
    return {
        "algorithm": ALGORITHM,
        "public_key": base64.b64encode(key.public_key().public_bytes_raw()).decode(),
        "value": base64.b64encode(key.sign(PURPOSE + content)).decode(),
    }


def is_signed_by(public: bytes, content: bytes, signature: dict[str, Any]) -> bool:
    """Whether the signature of `content` was made with this key."""
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    try:
        Ed25519PublicKey.from_public_bytes(public).verify(base64.b64decode(signature["value"]), PURPOSE + content)
    except (InvalidSignature, ValueError):
        return False
    return True


def key_in(signature: dict[str, Any]) -> bytes:
    """The public key that a signature names."""
    return base64.b64decode(signature["public_key"])


def fingerprint(public: bytes) -> str:
    """A public key as people compare it: `ed25519:` and 16 hexadecimal digits of its SHA-256."""
    return f"{ALGORITHM}:{hashlib.sha256(public).hexdigest()[:16]}"
