"""The inbox of the engine's thread: accepted jobs, requests, and a request to stop. Each wakes the thread."""

import contextlib
import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeout
from dataclasses import dataclass, field

from headway.live.errors import JournalFailed, Stopping
from headway.live.manager.steps import Steps


@dataclass(frozen=True, slots=True)
class ManagerRequest:
    """A command: `act(now)` yields steps in the engine's thread; `done` is set once they are on disk."""

    act: Callable[[float], Steps]
    done: Future[None] = field(default_factory=Future)


class Inbox:
    """Jobs and requests that the engine's thread has not taken yet."""

    def __init__(self) -> None:
        self.arrivals: deque[int] = deque()  # numbers of accepted jobs
        self.requests: deque[ManagerRequest] = deque()
        self.closing = self.gone = False  # the engine's thread must end; it has ended
        self._wake = threading.Condition()
        self._woken = False

    def ask(self, act: Callable[[float], Steps]) -> None:
        """Let the engine's thread take the steps of `act`, and wait until they are on disk."""
        if self.closing:
            raise Stopping()
        request = ManagerRequest(act)
        self.requests.append(request)
        self.wake()
        while not self.gone:
            with contextlib.suppress(FutureTimeout):
                request.done.result(1.0)
                return
        self.refuse(Stopping())
        request.done.result()

    def refuse(self, error: JournalFailed) -> None:
        """Refuse all requests that have not begun."""
        while self.requests:
            with contextlib.suppress(IndexError):  # another thread was faster
                self.requests.popleft().done.set_exception(error)

    def close(self) -> None:
        """Let the engine's thread end after this round."""
        self.closing = True
        self.wake()

    def wake(self) -> None:
        """End `sleep`."""
        with self._wake:
            self._woken = True
            self._wake.notify()

    def sleep(self, seconds: float, always: bool = False) -> None:
        """Sleep until woken, at most `seconds`; `always`: even if `wake` was called before."""
        with self._wake:
            if (not self._woken or always) and not self.closing and seconds > 0:
                self._wake.wait(min(seconds, 1.0))  # bounded: the clock of a test may advance without a wake-up
            self._woken = False
