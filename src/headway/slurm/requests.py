"""Requests to Slurm, as values.

commands.py and rest.py render each request as text first, which can be read and tested, then send it.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from headway.errors import HeadwayError
from headway.slurm.snapshot import SlurmSnapshot


class NoAnswer(HeadwayError):
    """Slurm did not answer: nobody knows whether the request was carried out."""


class Rejected(HeadwayError):
    """Slurm answered, and said no."""


@dataclass(frozen=True, slots=True)
class Submit:
    """A batch script, with sbatch's long options by name; as another user where `user` is given."""

    script: str
    options: Mapping[str, str]
    user: str | None = None


@dataclass(frozen=True, slots=True)
class Signal:
    """A signal to the processes of a job's steps; the batch script itself goes on."""

    job: int
    name: str
    step: int | None = None  # None: all of them


@dataclass(frozen=True, slots=True)
class Cancel:
    """End jobs."""

    jobs: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class JobUpdate:
    """New values for a waiting job, by scontrol's names: Nice, Priority."""

    job: str  # its number, or 5+0 for the first part of the heterogeneous job 5 alone
    fields: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Hold:
    """Keep a waiting job from starting, or (`release`) let it start."""

    job: str  # as in Change
    release: bool = False


Request = Submit | Signal | Cancel | JobUpdate | Hold


@dataclass(frozen=True, slots=True)
class Call:
    """A request as text: a command line with its standard input, or a request of HTTP with its body."""

    words: tuple[str, ...]
    body: str = ""
    user: str | None = None
    bare: bool = False  # without the caller's environment: it would become the job's

    def __str__(self) -> str:
        import shlex

        line = shlex.join(self.words)
        line = f"{line}  # as {self.user}" if self.user else line
        return f"{line}\n{self.body}" if self.body else line


class SlurmConnection(Protocol):
    """One way to Slurm."""

    def render(self, request: Request) -> Call:
        """The request as text; pure."""

    def send(self, request: Request) -> str:
        """Carry it out: the number of a submitted job, or nothing. Raises Unreachable or Refused."""

    def poll(self) -> SlurmSnapshot:
        """All jobs and all nodes. Raises Unreachable or Refused."""

    def show(self, what: str) -> str:
        """The topology, partitions or reservations as `scontrol --oneliner show` prints them; empty where Slurm knows of none."""
