"""While slurmctld does not answer: how long to wait before the next try, and what to tell people."""

from dataclasses import dataclass

FIRST_S, MOST_S = 1.0, 30.0


@dataclass(slots=True)
class Outage:
    """Failures in a row, by a monotonic clock."""

    failures: int = 0
    since: float = 0.0
    again_at: float = 0.0
    why: str = ""

    def failed(self, why: str, now: float) -> None:
        """One more failure: wait twice as long, up to a bound."""
        if not self.failures:
            self.since = now
        self.failures, self.why = self.failures + 1, why
        self.again_at = now + min(MOST_S, FIRST_S * 2.0 ** min(self.failures - 1, 30))

    def over(self) -> None:
        """It answers."""
        self.failures, self.why = 0, ""

    def waits(self, now: float) -> bool:
        """Whether it is too early to try again."""
        return self.failures > 0 and now < self.again_at

    def words(self, now: float) -> str:
        """One sentence for `explain`; empty when all is well."""
        if not self.failures:
            return ""
        tries = f"{self.failures} {'try' if self.failures == 1 else 'tries'}"
        next_s = max(0.0, self.again_at - now)
        return (
            f"Slurm has not answered for {now - self.since:.0f} s ({tries}, the next in {next_s:.0f} s: {self.why}); "
            "jobs that run go on, and nothing is started or stopped meanwhile"
        )
