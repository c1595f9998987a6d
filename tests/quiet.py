"""An executor that starts nothing and reports nothing: the base of executors that tests imagine."""

from collections.abc import Callable
from pathlib import Path

from headway.live.executors import Executor, Launch, Report


class Quiet(Executor):
    """Does nothing."""

    def open(self, wake: Callable[[], None]) -> None: ...

    def close(self) -> None: ...

    def start(self, launch: Launch) -> None: ...

    def stop(self, job: int, attempt: int, signal_name: str, grace_s: float) -> None: ...

    def check_user(self, user: str) -> None:
        """Accept imagined users: no process runs."""

    def adopt(self, job: int, attempt: int) -> None: ...

    def reports(self) -> list[Report]:
        return []

    def logs(self, job: int, attempt: int) -> list[Path]:
        return []
