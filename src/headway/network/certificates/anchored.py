"""Certificates that may be acted on: checked against the real fabric, and signed by the key expected where there is one.

Whoever allocates, writes routes or keeps a ledger takes certificates through this door only.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from headway.errors import BadInput
from headway.network.certificates.certificate import Certificate, certificate_from, describe
from headway.network.certificates.verify import Holding, verify
from headway.network.fabric.model import Fabric


def admitted(
    contents: Sequence[tuple[str, Any]],
    fabric: Fabric,
    key: bytes | None = None,
    in_force: Mapping[Holding, str] | None = None,
) -> list[Certificate]:
    """Certificates, each given as (name, plain data), that the verifier accepts together on this fabric.

    Otherwise a refusal with the first reason. `key` is the public key that must have signed them. What certificates `in_force` hold, each
    thing with its holder, is held by no other; they came through this door before, and are not checked again.
    """
    for verdict in verify(list(contents), describe(fabric), key, in_force):
        if verdict.reasons:
            why = f"rejected: {verdict.reasons[0]}"
            raise BadInput(f"{verdict.where}: {why}", {"where": verdict.where, "why": why})
    return [certificate_from(content) for _, content in contents]
