"""The manager: a journal, the engine and an executor behind one thread-safe interface.

The engine's thread runs `core/engine.py: drive`, a loop that simulations can use too. Submissions are on disk before they are acknowledged
and handed to the engine. Commands are performed in the engine's thread and answered once they are on disk; queries read the memory.
"""

import contextlib
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from headway.cluster.nodes import Cluster
from headway.cluster.queues import Queues
from headway.errors import BadInput, HeadwayError
from headway.io.outside import raised
from headway.live.errors import JournalFailed
from headway.live.executors import Executor
from headway.live.executors.registry import DEFAULT, find_executor
from headway.live.fabric.served import REMEMBERED, ServedFabric, check_same, with_fabric
from headway.live.manager import recovery
from headway.live.manager.clock import resume_clock
from headway.live.manager.commands import ManagerCommands
from headway.live.manager.disk import Disk
from headway.live.manager.lifecycle import closed
from headway.live.manager.loop.world import LiveWorld
from headway.live.manager.outcome import Backoff
from headway.live.manager.questions import Questions
from headway.live.manager.submission import Intake
from headway.live.rows import AWAY_SINCE
from headway.live.state.attempts import AUTO, MinRuntimes
from headway.live.state.cluster import ClusterState
from headway.live.state.records import Job
from headway.live.state.site import PLAIN, Site
from headway.live.store.identity import JournalMark, last_alive
from headway.placement.registry import find_placement
from headway.policies.registry import find_policy

DEFAULT_BACKOFF = Backoff()


def no_environment(job: Job, attempt: int) -> dict[str, str]:
    """Return no variables beside those that every job gets."""
    return {}


class Manager(Intake, Questions, ManagerCommands):
    """One cluster, one data folder."""

    def __init__(
        self,
        data: Path,
        cluster: Cluster,
        policy: str = "headway",
        placement: str = "consolidated",
        *,
        min_runtimes: MinRuntimes = AUTO,
        executor: Executor | None = None,
        backoff: Backoff = DEFAULT_BACKOFF,
        environment: Callable[[Job, int], dict[str, str]] = no_environment,
        site: Site = PLAIN,
        queues: Queues | None = None,
    ) -> None:
        executor = executor or find_executor(DEFAULT, Path(data))
        executor.capabilities.refuse(
            type(executor).__name__,
            hooks=bool(site.prolog or site.epilog),
            process_limit=site.max_processes is not None,
        )
        if site.fabric is None and executor.fabric is not None:
            site = replace(site, fabric=ServedFabric(executor.fabric))
        cluster = with_fabric(cluster, site.fabric.fabric) if site.fabric else cluster
        if queues:
            queues.check_size(cluster.total, cluster.name)
            queues.booked(cluster.nodes, dated=True)
        cluster = cluster.described(site.gpu_type, site.features)
        self.data, self.cluster, self.policy, self.placement = Path(data), cluster, policy, placement
        rule, placing = find_policy(policy), find_placement(placement)
        reserves = placing.needs_fabric or placing.shares
        self._fabric_mark = site.fabric.mark(cluster) if site.fabric and reserves else ""
        disk = Disk(self.data, site.min_free_bytes) if site.min_free_bytes else None
        if disk is not None:
            disk.look()  # on a full disk, free the reserve before the journal is opened
        opened = recovery.open_journal(
            self.data,
            lambda before: ClusterState(before or cluster, rule, placing, min_runtimes, site, queues),
            lambda journal: check_same(journal.meta(REMEMBERED), self._fabric_mark),
        )
        self.warnings, self._aftermath = list(opened.warnings), opened.aftermath
        self._mark = JournalMark(self.data, opened.identities[-1])
        try:
            last_seq, last = opened.journal.last
            clock = resume_clock(opened.journal.meta("clock"), last)
            executor.journals = opened.identities
            world = LiveWorld(
                opened.state,
                opened.journal,
                executor,
                clock,
                backoff,
                environment,
                disk=disk,
                identity=opened.identities[-1],
                last_seq=last_seq,
                snapshot_seq=opened.snapshot_seq,
                mark=self._mark.set,
            )
            self._away_since = max(last, last_alive(self.data)) if last_seq else None
            if last_seq:  # losing an empty journal loses nothing
                world.mark(seq=last_seq, job=max(opened.state.jobs, default=0))
        except BaseException:
            opened.journal.close()
            self._mark.close()
            raise
        super().__init__(world)
        self._saved_clock = clock.saved
        self._thread: threading.Thread | None = None
        self._stopped = False

    # ---- starting and stopping

    def start(self) -> None:
        """Adopt running jobs and schedule until stopped. Return after the first decision.

        The last manager may have recorded reasons that are wrong on this cluster. No query returns them.
        """
        self._journal.remember("clock", self._saved_clock())
        self._journal.remember(REMEMBERED, self._fabric_mark)
        about: dict[str, Any] = {"policy": self.policy, "placement": self.placement}
        if self._away_since is not None:
            about[AWAY_SINCE] = min(self._away_since, self.clock())
        self._world.open(self.cluster, about, self._executor.capabilities.numbers_gpus)
        try:
            self._executor.open(self._world.wake)
        except (HeadwayError, OSError):
            raise
        except Exception as error:  # a class from outside may raise anything
            name = type(self._executor).__name__
            raise BadInput(f"executor {name}: open failed: {raised(error, __file__)}") from error
        self._state.enforced = self._executor.capabilities.enforced
        self._world.adopt(self._aftermath)
        if self._aftermath:
            self.warnings += self._executor.strays()
        self._thread = threading.Thread(target=self._world.run, name="engine", daemon=True)
        self._world.wake()  # decide at once, not at the first event
        self._thread.start()
        self._world.wait_for_decision()

    def stop(self, drain: bool = False) -> None:
        """Stop the manager. Jobs go on, and the next manager adopts them; with `drain` they are stopped first, and run again later."""
        if self._stopped:
            return
        self._stopped = True
        if self._thread:
            if drain and self._thread.is_alive():
                with contextlib.suppress(JournalFailed):  # without the journal no job is stopped
                    self._stop_jobs()
            self._world.close()
            self._thread.join()
            self._executor.close()
            self.followers.close()
            self._world.save()
            self._mark.set(seq=self._world.last_seq, now=self.clock())
        self._journal.close()
        self._mark.close()

    def _stop_jobs(self) -> None:
        """Start no job until the next manager opens, and requeue the running jobs."""
        self._world.ask(lambda _: closed(self._state))
        self._world.wait_until(lambda: not self._with_processes())

    def _with_processes(self) -> list[Job]:
        return [job for job in self._state.active_jobs() if self._state.job_state(job).has_processes]

    def try_journal(self) -> None:
        """Write a value to the journal and check its file; raise JournalFailed if it cannot be written, or is damaged."""
        self._journal.remember("tried", str(self.clock()))
        self._journal.look()

    def wait_for_failure(self) -> str:
        """Wait until the engine has stopped, and return why; empty if it was asked to."""
        self._world.engine_gone.wait()
        return self._world.failure

    # ---- for the server and the webhook

    def settle(self) -> None:
        """Wait until the journal has every change that queries show now."""
        self._world.ask(lambda _: iter(()))

    def remember(self, name: str, value: str) -> None:
        """Store a small value in the journal for the next manager."""
        self._journal.remember(name, value)

    def recall(self, name: str) -> str | None:
        """Return a value that `remember` stored, or None."""
        return self._journal.meta(name)

    def complain(self, message: str, part: str) -> None:
        """Note an error of a part of the manager for `headway health`; the part fails until `recovered` is called."""
        with self._world.lock:
            self._world.measures.error(self.clock(), message)
            self._world.measures.failing.add(part)

    def recovered(self, part: str) -> None:
        """Note that a part of the manager works."""
        self._world.measures.failing.discard(part)
