"""How a browser signs in: one-time codes and sessions, which only this process of the manager knows.

A browser cannot see which user's program answers it. So it never holds a token: a program that takes the manager's port later would
receive it. A session is worth nothing to that program, and nothing to the next manager. Only hashes are kept here.
"""

import hashlib
import secrets
import threading
from collections.abc import Callable

CODE_S = 600.0
# Codes and sessions of one token; a new one takes the place of the oldest.
MOST = 64
SESSION = "hws-"  # how a session begins


class Sessions:
    """The codes and sessions of one manager, each for one token, by the token's hash."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self.clock = clock
        self._codes: dict[str, tuple[str, float]] = {}
        self._sessions: dict[str, tuple[str, float]] = {}
        self._lock = threading.Lock()

    def make_code(self, token_hash: str) -> str:
        """Return a code that is exchanged for a session once, within CODE_S seconds."""
        return self._add(self._codes, "hwc-", token_hash)

    def take_code(self, code: str) -> str | None:
        """Return the token that a code was made for, and forget the code; None if it is unknown or late."""
        token_hash, made = self._codes.pop(_hash(code), ("", 0.0))
        return token_hash if token_hash and self.clock() < made + CODE_S else None

    def open(self, token_hash: str) -> str:
        """Return a new session of a token."""
        return self._add(self._sessions, SESSION, token_hash)

    def token_of(self, session: str) -> str | None:
        """Return the token of a session; None if there is no such session."""
        found = self._sessions.get(_hash(session)) if session.startswith(SESSION) else None
        return found[0] if found else None

    def close(self, session: str) -> None:
        """End a session."""
        self._sessions.pop(_hash(session), None)

    def _add(self, table: dict[str, tuple[str, float]], begins: str, token_hash: str) -> str:
        secret = begins + secrets.token_urlsafe(32)
        with self._lock:
            same = [each for each, (token, _) in table.items() if token == token_hash]
            for oldest in same[: max(0, len(same) - MOST + 1)]:
                table.pop(oldest, None)
            table[_hash(secret)] = (token_hash, self.clock())
        return secret


def _hash(secret: str) -> str:
    return hashlib.sha256(secret.encode()).hexdigest()
