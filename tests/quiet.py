"""An executor that starts nothing and reports nothing: the base of executors that tests imagine."""

from collections.abc import Callable
from pathlib import Path

from headway.live.executors import Executor, Launch, Report


class Quiet(Executor):
    """Does nothing."""

    def __init__(self) -> None:
        super().__init__(Path("/nowhere"))

    def open(self, wake: Callable[[], None]) -> None: ...

    def start(self, launch: Launch) -> None: ...

    def stop(self, job: int, attempt: int, signal_name: str, grace_s: float) -> None: ...

    def adopt(self, job: int, attempt: int) -> None: ...

    def check_user(self, user: str) -> None:
        """Accept imagined users: no process runs."""

    def reports(self) -> list[Report]:
        return []

    def logs(self, job: int, attempt: int) -> list[Path]:
        return []

    def notify(self, job: int, attempt: int, until: float | None) -> None: ...
