"""The manager: a journal, the engine and an executor behind one thread-safe interface.

`drive()` runs in a thread of its own, exactly the loop of the simulator. Submissions go to disk before they are acknowledged and then to
the engine; what people ask for is done in the engine's thread and answered when it is on disk; questions are answered from memory.
"""

import contextlib
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from headway.cluster.nodes import Cluster
from headway.cluster.queues import Queues
from headway.core.engine import Event
from headway.live.errors import JournalFailed
from headway.live.executors import Executor
from headway.live.executors.registry import DEFAULT, find_executor
from headway.live.fabric.served import REMEMBERED, ServedFabric, check_same, with_fabric
from headway.live.manager import recovery
from headway.live.manager.clock import resume_clock
from headway.live.manager.commands import Verbs
from headway.live.manager.disk import Disk
from headway.live.manager.outcome import Backoff
from headway.live.manager.questions import Questions
from headway.live.manager.submission import Accepting
from headway.live.manager.world import LiveWorld
from headway.live.state.attempts import AUTO, MinRuntimes
from headway.live.state.cluster import ClusterState
from headway.live.state.learn import CLOSING
from headway.live.state.records import REQUEUE, Job
from headway.live.state.site import PLAIN, Site
from headway.live.store.history import AWAY_SINCE
from headway.live.store.identity import Mark, last_alive
from headway.placement.registry import find_placement
from headway.policies.registry import find_policy

DEFAULT_BACKOFF = Backoff()


def no_environment(job: Job, attempt: int) -> dict[str, str]:
    """Variables that a job gets beside those of every job: none."""
    return {}


class Manager(Accepting, Questions, Verbs):
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
        if site.fabric is None and (given := getattr(executor, "fabric", None)) is not None:
            site = replace(site, fabric=ServedFabric(given))
        cluster = with_fabric(cluster, site.fabric.fabric) if site.fabric else cluster
        if queues:
            queues.check_size(cluster.total, cluster.name)
            queues.booked(cluster.nodes, dated=True)
        cluster = cluster.described(site.gpu_type, site.features)
        self.data, self.cluster, self.policy, self.placement = Path(data), cluster, policy, placement
        rules = find_policy(policy), find_placement(placement)
        self._links = site.fabric.mark(cluster) if site.fabric and (rules[1].needs_fabric or rules[1].shares) else ""
        disk = Disk(self.data, site.min_free_bytes) if site.min_free_bytes else None
        if disk is not None:
            disk.look()  # what is kept for a full disk is given up before the journal is opened there
        past = recovery.open_journal(
            self.data,
            lambda before: ClusterState(before or cluster, *rules, min_runtimes, site, queues),
            lambda journal: check_same(journal.meta(REMEMBERED), self._links),
        )
        self.warnings, self._aftermath = list(past.warnings), past.aftermath
        self._mark = Mark(self.data, past.identities[-1])
        try:
            last_seq, last = past.journal.last
            clock = resume_clock(past.journal.meta("clock"), last)
            runs_jobs = executor or find_executor(DEFAULT, self.data)
            if hasattr(runs_jobs, "journals"):
                runs_jobs.journals = past.identities
            world = LiveWorld(past.state, past.journal, runs_jobs, clock, backoff, environment)
            world.last_seq, world.snapshot_seq = last_seq, past.snapshot_seq
            world.disk = disk
            world.identity, world.mark = past.identities[-1], self._mark.set
            self._away_since = max(last, last_alive(self.data)) if last_seq else None
            if last_seq:  # an empty journal that is gone again is no loss
                world.mark(seq=last_seq, job=max(past.state.jobs, default=0))
        except BaseException:
            past.journal.close()
            self._mark.close()
            raise
        super().__init__(world)
        self._saved_clock = clock.saved
        self._thread: threading.Thread | None = None
        self._stopped = False

    # ---- life

    def start(self) -> None:
        """Adopt running jobs and schedule until stopped. Return after the first decision.

        Reasons recorded by the last manager may be wrong on this cluster. No question is answered with them.
        """
        self._journal.remember("clock", self._saved_clock())
        self._journal.remember(REMEMBERED, self._links)
        about: dict[str, Any] = {"policy": self.policy, "placement": self.placement}
        if self._away_since is not None:
            about[AWAY_SINCE] = min(self._away_since, self.clock())
        self._world.open(self.cluster, about, bool(getattr(self._executor, "numbers_gpus", False)))
        self._world.away = (about.get(AWAY_SINCE, self._world.opened), self._world.opened)
        self._executor.open(self._world.wake)
        self._state.enforced = getattr(self._executor, "enforced", frozenset())
        recovery.adopt(self._state, self._executor, self._world, self._world.opened, self._aftermath)
        if self._aftermath and hasattr(self._executor, "strays"):
            self.warnings += self._executor.strays()
        self._thread = threading.Thread(target=self._world.run, name="engine", daemon=True)
        self._world.wake()  # decide at once, not at the first event
        self._thread.start()
        self._world.wait_for_decision()

    def stop(self, drain: bool = False) -> None:
        """End. Running jobs go on and are adopted by the next manager; with `drain` they are stopped first and will be run again."""
        if self._stopped:
            return
        self._stopped = True
        if self._thread:
            if drain and self._thread.is_alive():
                with contextlib.suppress(JournalFailed):  # stops that cannot be written down are not made: jobs go on
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
        """Start nothing more until the next manager opens, and put back what runs."""

        def act(now: float) -> Iterator[Event]:
            yield from self._world.note_about_nodes(CLOSING, now, {})
            for job in self._with_processes():
                yield from self._world.stop(job, REQUEUE)

        self._world.ask(act)
        self._world.wait_until(lambda: not self._with_processes())

    def _with_processes(self) -> list[Job]:
        return [job for job in self._state.active_jobs() if self._state.job_state(job).has_processes]

    @property
    def trouble(self) -> str:
        """Why nothing is being started, if so (the journal cannot be written, its disk is nearly full); empty when all is well."""
        return self._world.trouble or self._journal.displaced or self._state.low_disk

    @property
    def enforced(self) -> frozenset[str]:
        """Bounds of a job file that jobs are held to here."""
        return self._state.enforced

    def try_journal(self) -> None:
        """Write something small to the journal, then look at its file; JournalFailed if it cannot be written, or is damaged."""
        self._journal.remember("tried", str(self.clock()))
        self._journal.look()

    def wait_for_failure(self) -> str:
        """Wait until the engine has stopped: why, or nothing if it was asked to."""
        self._world.engine_gone.wait()
        return self._world.failure

    # ---- for programs beside it

    def settle(self) -> None:
        """Wait until the journal has everything that can be seen now."""
        self._world.ask(lambda _: iter(()))

    def remember(self, name: str, value: str) -> None:
        """Keep something small in the journal for the next manager."""
        self._journal.remember(name, value)

    def recall(self, name: str) -> str | None:
        """What was kept, if anything."""
        return self._journal.meta(name)

    def complain(self, words: str, part: str) -> None:
        """Note an error of a part of the manager for `headway health`; the part fails until `recovered` is called."""
        with self._world.lock:
            self._world.measures.error(self.clock(), words)
            self._world.measures.failing.add(part)

    def recovered(self, part: str) -> None:
        """Note that a part of the manager works."""
        self._world.measures.failing.discard(part)
