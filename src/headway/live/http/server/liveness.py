"""Whether the manager can do its work: its journal takes writes. Watchdogs ask often, so the answer is kept for a second."""

import asyncio
import time
from collections.abc import Callable

from fastapi.concurrency import run_in_threadpool

from headway.errors import HeadwayError
from headway.live.manager.manager import Manager

KEPT_S = 1.0
# A disk that takes longer than this for one small write is not there.
WITHIN_S = 3.0


class Liveness:
    """Tries a small write to the journal when asked, one at a time."""

    def __init__(self, manager: Manager, clock: Callable[[], float] = time.monotonic) -> None:
        self.manager, self.clock = manager, clock
        self._trial: asyncio.Future[str] | None = None
        self._began = -KEPT_S

    async def trouble(self) -> str:
        """Return what is wrong, in one line; empty: nothing."""
        if known := self.manager.trouble:
            return known.strip().splitlines()[-1]
        if self._trial is None or (self._trial.done() and self.clock() - self._began > KEPT_S):
            self._began = self.clock()
            self._trial = asyncio.ensure_future(run_in_threadpool(self._write))
        trial, began = self._trial, self._began  # whoever asks next may begin another
        done, _ = await asyncio.wait([trial], timeout=max(0.0, began + WITHIN_S - self.clock()))
        return trial.result() if done else f"the journal has not taken a write for {self.clock() - began:.0f} s"

    def _write(self) -> str:
        try:
            self.manager.try_journal()
        except HeadwayError as error:
            return str(error)
        return ""
