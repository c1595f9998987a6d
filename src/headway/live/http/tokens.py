"""Tokens: the owner's token, tokens for other users, and a token for every job.

A token is a random secret sent as `Authorization: Bearer ...`. The owner's is a file in the data folder that only its owner can read, so
the command line picks it up and no other local user can. Tokens for others are kept as SHA-256 hashes: they hold 256 random bits, so no
slow hash is needed. A job's token is an HMAC of the job's number and attempt under a secret of the data folder: it needs no store, reaches
that job only, and is valid only while that attempt holds GPUs.
"""

import contextlib
import hashlib
import hmac
import json
import os
import re
import secrets
import stat
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

from headway.client.folder import TOKEN_FILE
from headway.errors import BadInput
from headway.io.accounts import refuse_others
from headway.io.json_file import parse_json
from headway.live.http.server.sessions import SESSION, Sessions

TOKENS_FILE = "tokens.json"
SECRET_FILE = "job-secret"
OWNER = "owner"  # the name of the token in the data folder
_JOB_TOKEN = re.compile(r"job-([0-9]{1,15})-([0-9]{1,9})-([0-9a-f]{64})", re.ASCII)
LONGEST_QUEUE = 256  # characters of a queue's name
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}", re.ASCII)


class Scope(StrEnum):
    """What a token allows; each includes the ones before it. `job` stands apart: one job, from inside it."""

    READ = "read"
    SUBMIT = "submit"
    OPERATE = "operate"
    JOB = "job"

    def covers(self, needed: "Scope") -> bool:
        """Return whether a token of this scope may do what needs `needed`."""
        return self is not Scope.JOB and _REACH[self] >= _REACH[needed]


_REACH = {scope: reach for reach, scope in enumerate(Scope)}


@dataclass(frozen=True, slots=True)
class Caller:
    """Whoever sent a request: the token's name, the user it acts as, and what it allows."""

    name: str
    user: str
    scope: Scope
    job_id: int | None = None
    expires: float | None = None  # seconds since 1970; None: never
    queues: tuple[str, ...] = ()  # queues that it may submit to, with the queues below them; empty: all queues

    @property
    def operates(self) -> bool:
        """Return whether the caller sees and changes the jobs of all users."""
        return self.scope is Scope.OPERATE

    def sees(self, job_id: int, user: str) -> bool:
        """Return whether the caller may see a job of `user`."""
        if self.scope is Scope.JOB:
            return job_id == self.job_id
        return self.operates or user == self.user


def no_attempt_runs(job_id: int, attempt: int) -> bool:
    """Return False: tokens of jobs are refused."""
    return False


class Tokens:
    """The tokens of one data folder. Made and revoked tokens take effect at once, without a restart.

    `attempt_runs` tells whether an attempt of a job holds GPUs now (`Manager.attempt_runs`).
    """

    def __init__(
        self,
        data: Path,
        owner: str,
        clock: Callable[[], float] = time.time,
        attempt_runs: Callable[[int, int], bool] = no_attempt_runs,
    ) -> None:
        self.data, self.owner, self.clock, self.attempt_runs = data, owner, clock, attempt_runs
        # Not 0700: under root, the jobs of other users reach their own folders below; the files here are private one by one.
        data.mkdir(parents=True, exist_ok=True, mode=0o711)
        self._owner_hash = _hash(_private(data / TOKEN_FILE, _new_token))
        self._owner = Caller(OWNER, owner, Scope.OPERATE)
        self._secret = job_secret(data)
        self._stored: dict[str, Caller] = {}
        self._stamp: tuple[int, int] | None = None
        self._damaged = False
        self._sessions = Sessions(clock)

    def caller(self, token: str) -> Caller | None:
        """Return whose token, or session, it is; None if it is unknown."""
        if (attempt_of := self._attempt_of(token)) is not None:
            job_id, _ = attempt_of
            return Caller(f"job {job_id}", "", Scope.JOB, job_id) if self.attempt_runs(*attempt_of) else None
        return self._caller(self._sessions.token_of(token) or _hash(token))

    def make_code(self, token: str) -> str:
        """Return a code with which a browser signs in once, with what this token, or session, allows."""
        return self._sessions.make_code(self._sessions.token_of(token) or _hash(token))

    def sign_in(self, secret: str) -> str | None:
        """Exchange a code, or a token, for a session; None if it is neither. The session ends with its token."""
        token_hash = self._sessions.take_code(secret) or _hash(secret)
        return None if self._caller(token_hash) is None else self._sessions.open(token_hash)

    def sign_out(self, session: str) -> None:
        """End a session."""
        self._sessions.close(session)

    def _caller(self, token_hash: str) -> Caller | None:
        if hmac.compare_digest(token_hash, self._owner_hash):
            return self._owner
        self._reload()
        stored = self._stored.get(token_hash)
        return None if stored is None or self._expired(stored) else stored

    def why_not(self, token: str) -> str:
        """Return why a token is refused."""
        if (attempt_of := self._attempt_of(token)) is not None:
            job_id, attempt = attempt_of
            return f"attempt {attempt} of job {job_id} has ended, and its token with it"
        if token.startswith(SESSION):
            return "the session has ended"
        caller = self._stored.get(_hash(token))
        if caller is not None and self._expired(caller):
            return f"the token {caller.name} has expired, ask for a new one"
        if token and self._damaged:
            return "the file of tokens is damaged here, tell the operator"
        return "the token is not known here" if token else "a token is needed"

    def _attempt_of(self, token: str) -> tuple[int, int] | None:
        """Return the job and the attempt that the token was made for, or None if it is no job's token."""
        match = _JOB_TOKEN.fullmatch(token)
        if match is None:
            return None
        job_id, attempt = int(match[1]), int(match[2])
        genuine = hmac.compare_digest(token, job_token(self._secret, job_id, attempt))
        return (job_id, attempt) if genuine else None

    def _expired(self, caller: Caller) -> bool:
        return caller.expires is not None and self.clock() >= caller.expires

    def _reload(self) -> None:
        try:
            status = (self.data / TOKENS_FILE).stat()
        except FileNotFoundError:
            self._stored, self._stamp, self._damaged = {}, None, False
            return
        stamp = (status.st_mtime_ns, status.st_ino)
        if stamp == self._stamp:
            return
        try:
            self._stored, self._damaged = stored_tokens(self.data), False
        except BadInput:  # nobody but the owner is let in until it is mended
            self._stored, self._damaged = {}, True
        self._stamp = stamp


def stored_tokens(data: Path) -> dict[str, Caller]:
    """Return the tokens made with `headway token make`, by the hashes of their secrets."""
    path = data / TOKENS_FILE
    try:
        rows = parse_json(path.read_bytes(), TOKENS_FILE, "list of tokens")
        return {row["sha256"]: _caller(row) for row in rows}
    except FileNotFoundError:
        return {}
    except PermissionError:
        raise BadInput(f"{path} belongs to another user: only the manager's owner makes tokens") from None
    except (BadInput, ValueError, KeyError, TypeError, AttributeError) as error:
        raise BadInput(f"{path} is damaged ({error}): remove it and make the tokens again") from None


def damage(data: Path) -> str:
    """Return what is wrong with the stored tokens, and what follows from it; empty: nothing."""
    try:
        stored_tokens(data)
    except BadInput as error:
        return f"{error}; until then only the owner's token and those of jobs are taken"
    return ""


def _caller(row: dict[str, Any]) -> Caller:
    expires = row.get("expires")
    until = None if expires is None else float(expires)
    return Caller(row["name"], row["user"], Scope(row["scope"]), expires=until, queues=tuple(row.get("queues", ())))


def make_token(
    data: Path, name: str, user: str, scope: Scope, expires: float | None = None, queues: Sequence[str] = ()
) -> str:
    """Make a token and store its hash; the secret is returned once and kept nowhere."""
    for what, text in (("token name", name), ("user", user)):
        if not _NAME.fullmatch(text):
            raise BadInput(f"{what} {text!r}: use letters, digits, dot, dash and underscore, at most 64")
    if scope is Scope.JOB:
        raise BadInput("tokens of scope job are made by the manager for its jobs: make one of read, submit or operate")
    if queues and scope is not Scope.SUBMIT:
        raise BadInput(
            f"a token of scope {scope} cannot be bound to queues: leave out --queue, or make a token of scope submit"
        )
    for queue in queues:
        if not (0 < len(queue) <= LONGEST_QUEUE and queue.isprintable()):
            raise BadInput(
                f"--queue {queue[:LONGEST_QUEUE]!r}: a queue's name is 1 to {LONGEST_QUEUE} printable characters"
            )
    if scope is not Scope.READ:
        refuse_others(user)
    callers = stored_tokens(data)
    if name == OWNER or any(caller.name == name for caller in callers.values()):
        raise BadInput(f"there is a token named {name!r} already: revoke it first, or choose another name")
    token = _new_token()
    bound = tuple(dict.fromkeys(queues))
    _store(data, {**callers, _hash(token): Caller(name, user, scope, expires=expires, queues=bound)})
    return token


def revoke_token(data: Path, name: str) -> None:
    """Make a token worthless."""
    callers = stored_tokens(data)
    others = {digest: caller for digest, caller in callers.items() if caller.name != name}
    if len(others) == len(callers):
        names = ", ".join(caller.name for caller in callers.values())
        raise BadInput(f"there is no token named {name!r}: {names or 'none was made'}")
    _store(data, others)


def job_secret(data: Path) -> bytes:
    """Return the secret from which job tokens are derived; create it if there is none."""
    return bytes.fromhex(_private(data / SECRET_FILE, lambda: secrets.token_hex(32)))


def job_token(secret: bytes, job_id: int, attempt: int) -> str:
    """Return the token that reaches this job only, and only during this attempt."""
    signed = f"headway job {job_id} attempt {attempt}".encode()
    return f"job-{job_id}-{attempt}-{hmac.new(secret, signed, hashlib.sha256).hexdigest()}"


def _new_token() -> str:
    return f"hw-{secrets.token_urlsafe(32)}"


def _private(path: Path, make: Callable[[], str]) -> str:
    """Return the content of a file that only its owner can read; replace a file that others could read."""
    with contextlib.suppress(FileNotFoundError):
        status = path.lstat()
        known = stat.S_ISREG(status.st_mode) and not status.st_mode & 0o077 and status.st_uid == os.geteuid()
        if known and (text := path.read_text(encoding="ascii").strip()):
            return text
    secret = make()
    _write_private(path, secret + "\n")
    return secret


def _store(data: Path, tokens: dict[str, Caller]) -> None:
    rows = [
        {"name": o.name, "user": o.user, "scope": o.scope, "sha256": digest, "expires": o.expires, "queues": o.queues}
        for digest, o in tokens.items()
    ]
    _write_private(data / TOKENS_FILE, json.dumps(rows, indent=2) + "\n")


def _write_private(path: Path, text: str) -> None:
    """Write aside with mode 0600 from the first byte, then rename: at no moment can others read it."""
    aside = path.with_name(f".{path.name}.{secrets.token_hex(6)}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o711)
        handle = os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(handle, "w", encoding="ascii") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        os.replace(aside, path)
    except OSError as error:
        aside.unlink(missing_ok=True)
        raise BadInput(f"cannot write {path}: {error.strerror}") from None


def _hash(token: str) -> str:
    return hashlib.sha256(token.encode()).hexdigest()
