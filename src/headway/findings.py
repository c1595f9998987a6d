"""Findings of `headway doctor`, shared by its checks and the executors."""

from dataclasses import dataclass

OK, LIMITED, BAD = "ok", "limited", "bad"


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was looked at: how it is, and what would make it better."""

    name: str
    state: str  # OK, LIMITED (it works, with less) or BAD (it does not work)
    found: str
    fix: str = ""
