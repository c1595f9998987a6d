"""Limits per caller, so that no caller blocks the others: a request rate, and a number of concurrent requests."""

import asyncio
from dataclasses import dataclass, field

from fastapi import HTTPException

# How much a bucket holds, in seconds of its rate.
BURST_S = 2.0
# Buckets kept before the full ones are dropped (a full bucket is as good as a new one).
MOST_BUCKETS = 10_000
# Requests of one token that are worked on at once, and that wait for that. Work is done in threads, of which there are many more.
MOST_AT_ONCE = 16
MOST_WAITING = 512
THREADS = 256


@dataclass(slots=True)
class Bucket:
    """A token bucket: it fills at a steady rate, and each request takes one."""

    rate_per_s: float
    level: float
    at: float

    def take(self, now: float) -> bool:
        """Return whether one more request may pass, and count it."""
        self.level = min(self.rate_per_s * BURST_S, self.level + (now - self.at) * self.rate_per_s)
        self.at = now
        if self.level < 1.0:
            return False
        self.level -= 1.0
        return True


class Rates:
    """A bucket for everybody: by token for those who have one, by address for strangers."""

    def __init__(self) -> None:
        self._buckets: dict[str, Bucket] = {}

    def take(self, who: str, rate_per_s: float, now: float) -> None:
        """Let one request pass, or refuse it."""
        if len(self._buckets) > MOST_BUCKETS:
            held = self._buckets.items()
            self._buckets = {name: each for name, each in held if now - each.at < BURST_S}
        bucket = self._buckets.get(who)
        if bucket is None:
            bucket = self._buckets[who] = Bucket(rate_per_s, rate_per_s * BURST_S, now)
        if not bucket.take(now):
            raise HTTPException(429, "too many requests: wait a second")


@dataclass(slots=True)
class _Share:
    free: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(MOST_AT_ONCE))
    users: int = 0  # that work or wait


class Shares:
    """Requests of one caller are worked on a few at a time; more wait, and too many are refused. Nobody waits for another caller."""

    def __init__(self) -> None:
        self._shares: dict[str, _Share] = {}

    async def enter(self, who: str) -> None:
        """Wait for a place."""
        share = self._shares.get(who)
        if share is None:
            share = self._shares[who] = _Share()
        if share.users >= MOST_AT_ONCE + MOST_WAITING:
            raise HTTPException(429, f"{share.users} requests of this token are waiting: wait for some of them")
        share.users += 1
        try:
            await share.free.acquire()
        except BaseException:
            self._leave(who, share)
            raise

    def leave(self, who: str) -> None:
        """Give the place to the next."""
        share = self._shares[who]
        share.free.release()
        self._leave(who, share)

    def _leave(self, who: str, share: _Share) -> None:
        share.users -= 1
        if not share.users:
            del self._shares[who]
