"""One-time codes and sessions with which a browser signs in. Only this process of the manager knows them.

A browser cannot see which user's program answers. So it never holds a token: another program that takes the port of a stopped manager
would receive it. That program may receive a session, which no later manager accepts. Only hashes are stored here.
"""

import hashlib
import secrets
import threading
from collections.abc import Callable

CODE_S = 600.0
MOST = 64  # codes, and sessions, of one token; a new one replaces the oldest
CODE, SESSION = "hwc-", "hws-"  # first characters


class Sessions:
    """The codes and sessions of one manager, each for one token, by the token's hash."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self.clock = clock
        self._codes: dict[str, tuple[str, float]] = {}
        self._sessions: dict[str, tuple[str, float]] = {}
        self._lock = threading.Lock()

    def make_code(self, token_hash: str) -> str:
        """Return a code that is exchanged for a session once, within CODE_S seconds."""
        return self._add(self._codes, CODE, token_hash)

    def take_code(self, code: str) -> str | None:
        """Remove a code, and return the hash of its token; None if the code is unknown or has expired."""
        with self._lock:
            token_hash, made_at = self._codes.pop(_hash(code), ("", 0.0))
        return token_hash if token_hash and self.clock() < made_at + CODE_S else None

    def open(self, token_hash: str) -> str:
        """Return a new session of a token."""
        return self._add(self._sessions, SESSION, token_hash)

    def token_of(self, session: str) -> str | None:
        """Return the hash of a session's token; None if there is no such session."""
        entry = self._sessions.get(_hash(session)) if session.startswith(SESSION) else None
        return entry[0] if entry else None

    def close(self, session: str) -> None:
        """End a session."""
        with self._lock:
            self._sessions.pop(_hash(session), None)

    def _add(self, table: dict[str, tuple[str, float]], prefix: str, token_hash: str) -> str:
        secret = prefix + secrets.token_urlsafe(32)
        with self._lock:
            of_token = [secret_hash for secret_hash, (token, _) in table.items() if token == token_hash]
            for oldest in of_token[: max(0, len(of_token) - MOST + 1)]:
                del table[oldest]
            table[_hash(secret)] = (token_hash, self.clock())
        return secret


def _hash(secret: str) -> str:
    return hashlib.sha256(secret.encode()).hexdigest()
