"""The Slurm executor: attempts become Slurm jobs on exactly the nodes that were decided, and what happens to them becomes reports.

One thread talks to Slurm: it submits, signals and polls, all jobs in one poll. Between polls it looks into the attempts' folders, where
ranks leave word at once. While Slurm does not answer, what is to be done waits, with bounded back-off. An attempt is known by the comment
of its Slurm jobs (job, attempt, part), and a file that only one can make decides who runs a part (script.py): so a submission whose answer
was lost is found again, and one that is given up never runs.
"""

import contextlib
import threading
import time
from collections import deque
from collections.abc import Callable, Set
from dataclasses import replace
from pathlib import Path

from headway.errors import BadInput
from headway.io import specs
from headway.io.units import counted
from headway.live.executors import ENDED, PROGRESSED, STARTED, Discovery, Launch, NodeReport, Report
from headway.live.executors.process.account import account_of
from headway.live.executors.process.attempts import write_notice
from headway.live.executors.process.progress import read_progress
from headway.live.executors.slurm import capacity, discovery
from headway.live.executors.slurm.attempt import Attempt, PartRun, read_attempt, written
from headway.live.executors.slurm.narrow import Narrow
from headway.live.executors.slurm.outage import Outage
from headway.live.executors.slurm.prepare import free_port, owner_of, prepare
from headway.live.executors.slurm.render import Site, read_comment
from headway.live.fabric.served import fabric_of, with_fabric
from headway.slurm.answers import Unreadable
from headway.slurm.commands import Commands
from headway.slurm.requests import Cancel, Door, Refused, Request, Signal, Unreachable
from headway.slurm.rest import Rest
from headway.slurm.snapshot import ANYBODY, SlurmJob, Snapshot

POLL_S = 2.0
LOOK_S = 0.2  # how often folders are looked into
SHARE = 10.0  # a poll, or a look, that takes a second is repeated after this many seconds at the earliest
PATIENCE_S = 60.0  # Slurm may take so long to start what should fit at once
LONGEST_S = 60.0  # but not later than this
KILL_S = 5.0  # after SIGKILL to the ranks, before the whole Slurm job is cancelled
APART_S = 5.0  # after one part is over, before the others are ended
OPTIONS = ("partition", "account", "qos", "reservation", "constraint", "rest", "poll", "fabric")
BUSY = ("limit", "temporarily", "too many", "already completing")  # what a refusal says that will pass


class SlurmExecutor:
    """Fills the Executor protocol with the nodes of a Slurm cluster."""

    enforced = frozenset({"cpus", "memory"})  # by Slurm, as its operator configured it
    journals: tuple[str, ...] | None = None  # whose attempts may be adopted; None: anybody's

    def __init__(self, data: Path, options: dict[str, str] | None = None, *, poll_s: float = POLL_S) -> None:
        settings = dict(options or {})
        specs.check(settings, OPTIONS, "executor slurm")
        self.data, self.runs = data.resolve(), data.resolve() / "runs"
        self.poll_s = specs.number(settings, "poll") if "poll" in settings else poll_s
        rest = settings.pop("rest", "")
        settings.pop("poll", None)
        self.fabric = fabric_of(settings.pop("fabric")) if "fabric" in settings else None
        self.door: Door = Rest(rest) if rest else Commands()
        self.options, self.patience_s = settings, PATIENCE_S
        self.outage = Outage()
        self._attempts: dict[tuple[int, int], Attempt] = {}
        self._over: set[tuple[int, int]] = set()
        self._owners: dict[tuple[int, int], int] = {}
        self._reports: deque[Report] = deque()
        self._nodes: list[NodeReport] = []
        self._nodes_new = False
        self._lost, self._narrow = capacity.Lost(), Narrow()
        self._site = Site("", settings, {})
        self._lock = threading.RLock()
        self._poke = threading.Event()
        self._wake: Callable[[], None] = lambda: None
        self._thread: threading.Thread | None = None
        self._closing = False
        self._poll_at = self._look_at = 0.0

    # ---- the hooks

    def discover(self) -> Discovery:
        """The nodes with GPUs of Slurm, or of one partition."""
        discovered = discovery.discover(self.door, self.data, self.options)
        return Discovery(with_fabric(discovered.cluster, self.fabric), discovered.note) if self.fabric else discovered

    def check_user(self, user: str) -> None:
        """Under root, a user needs an account; it is the one that the Slurm jobs run under."""
        account_of(user)

    def open(self, wake: Callable[[], None]) -> None:
        """Look at Slurm once, so that the first decision knows which nodes there are; then begin to watch."""
        self.runs.mkdir(parents=True, exist_ok=True, mode=0o711)
        nodes, _ = discovery.remembered(self.data)
        if not nodes:
            self.discover()
            nodes, _ = discovery.remembered(self.data)
        self._site = Site(discovery.instance_of(self.data), self.options, {node.name: node for node in nodes})
        self._wake = wake
        self._try(self._poll)
        self._thread = threading.Thread(target=self._run, name="slurm", daemon=True)
        self._thread.start()

    def start(self, launch: Launch) -> None:
        """Write down what is to run; the thread submits it."""
        key = (launch.job, launch.attempt)
        with self._lock:
            if key in self._attempts or owner_of(self.folder(*key)) == launch.journal:
                self.adopt(*key)
                return
            try:
                used = {attempt.port for attempt in self._attempts.values()}
                folder = self.folder(*key)
                self._attempts[key] = prepare(launch, folder, free_port(launch.job, used), self._site)
            except BadInput as error:
                self._tell(Report(ENDED, *key, exit_code=127, message=str(error)))
            except OSError as error:
                why = f"cannot start: {error.strerror or error}"
                self._tell(Report(ENDED, *key, lost=True, never_ran=True, refused=True, message=why))
        self._poke.set()

    def stop(self, job: int, attempt: int, signal_name: str, grace_s: float) -> None:
        """Write the request into the attempt's folder; the thread signals its ranks."""
        with self._lock:
            known_attempt = self._attempts.get((job, attempt))
            if known_attempt is not None:
                known_attempt.ask_to_stop(signal_name, grace_s)
        self._poke.set()

    def notify(self, job: int, attempt: int, until: float | None) -> None:
        """Write the notice into the attempt's folder, which its nodes share, or remove it."""
        with self._lock, contextlib.suppress(OSError):
            known_attempt = self._attempts.get((job, attempt))
            if known_attempt is not None:
                write_notice(known_attempt.folder, until)

    def adopt(self, job: int, attempt: int) -> None:
        """Watch it from now on; its folder and the next poll say how it is."""
        with self._lock:
            if (job, attempt) in self._attempts:
                return
            folder = self.folder(job, attempt)
            owner, known_attempt = owner_of(folder), read_attempt(folder, job, attempt)
            if self.journals is not None and owner is not None and owner not in self.journals:
                known_attempt = None
            if known_attempt is None:
                self._tell(Report(ENDED, job, attempt, lost=True, never_ran=True, message="it was not submitted"))
                return
            self._attempts[(job, attempt)] = known_attempt
        self._poll_at = 0.0
        self._poke.set()

    def reports(self) -> list[Report]:
        """Everything seen since the last call."""
        return [self._reports.popleft() for _ in range(len(self._reports))]

    def node_reports(self) -> list[NodeReport]:
        """How the nodes are, if Slurm was asked since the last call."""
        with self._lock:
            new, self._nodes_new = self._nodes_new, False
            return self._nodes if new else []

    def remarks(self) -> str:
        """What people should know while jobs wait: that Slurm does not answer, or that others use GPUs."""
        now = time.monotonic()
        with self._lock:
            taken = sum(node.taken for node in self._nodes)
            whose = "jobs submitted to Slurm directly, or with more CPUs or memory than go with their GPUs,"
            used = f"{whose} use {counted(taken, 'GPU')}" if taken else ""
            return "; ".join(filter(None, [self.outage.words(now), used, self._narrow.words(now)]))

    def logs(self, job: int, attempt: int) -> list[Path]:
        """Logs in the order of ranks."""
        paths = self.folder(job, attempt).glob("rank-*.log")
        return sorted(paths, key=lambda path: int(path.stem.partition("-")[2]))

    def close(self) -> None:
        """Stop watching; the Slurm jobs go on."""
        self._closing = True
        self._poke.set()
        if self._thread:
            self._thread.join()

    def folder(self, job: int, attempt: int) -> Path:
        """Where everything about an attempt lies."""
        return self.runs / str(job) / str(attempt)

    # ---- the thread

    def _run(self) -> None:
        while not self._closing:
            self._try(self._act)
            now = time.monotonic()
            if now >= self._poll_at and self._try(self._poll):
                took = time.monotonic() - now
                self._poll_at = now + max(self.poll_s, min(SHARE * took, LONGEST_S))
            now = time.monotonic()
            if now >= self._look_at:
                with self._lock:
                    for key in list(self._attempts):
                        with contextlib.suppress(
                            OSError
                        ):  # out of descriptors, or a file system that stutters: at the next look
                            self._look(key)
                self._look_at = now + max(LOOK_S, SHARE * (time.monotonic() - now))
            seconds = min(self._poll_at, self._look_at) - time.monotonic()
            self._poke.wait(max(0.005, seconds))
            self._poke.clear()

    def _try(self, talk: Callable[[], None]) -> bool:
        """Talk to Slurm, unless it is too early after a failure; after one, the first thing to try again is a poll."""
        if self.outage.waits(time.monotonic()):
            return False
        try:
            talk()
        except (Unreachable, Refused, Unreadable) as error:  # a poll that is refused is as good as no answer
            self.outage.failed(str(error), time.monotonic())
            self._poll_at = self.outage.again_at
            return False
        except Exception as error:  # whatever it is, jobs must not wait for a thread that has ended
            self.outage.failed(f"{type(error).__name__}: {error}", time.monotonic())
            self._poll_at = self.outage.again_at
            return False
        return True

    def _act(self) -> None:
        """Submit what is wanted, and carry on with stops."""
        with self._lock:
            wanted = [(a, part) for a in self._attempts.values() for part in a.parts if part.submit and not part.unsure]
        for attempt, part in wanted:
            if self._closing:
                return
            self._submit(attempt, part)
        with self._lock:
            stopping = [attempt for attempt in self._attempts.values() if attempt.stop is not None]
        for attempt in stopping:
            self._carry_on(attempt)

    def _submit(self, attempt: Attempt, part: PartRun) -> None:
        with self._lock:
            if attempt.stop is not None or part.submit is None:
                part.revoked = part.submit is not None
                return
            request, part.sent_at, part.unsure = part.submit, time.monotonic(), True
        try:
            number = self.door.send(request)
        except Unreachable:  # perhaps it was accepted: the next poll says
            part.sent_at = time.monotonic()
            raise
        except Refused as error:
            with self._lock:
                part.unsure = False
                attempt.late = any(word in str(error).lower() for word in BUSY)
                attempt.refusal = "" if attempt.late else str(error)
                part.revoked = True
            return
        with self._lock:
            part.slurm, part.submit, part.unsure = int(number), None, False
        self.outage.over()

    def _carry_on(self, attempt: Attempt) -> None:
        """The signal first; SIGKILL after the grace; the end of the whole Slurm job if that does not help."""
        stop, now = attempt.stop, time.time()
        for part in attempt.parts:
            if stop is None or part.slurm is None or part.over_since is not None:
                continue
            if not part.told:
                up = attempt.gone_up
                self._send(Signal(part.slurm, stop.signal) if up else Cancel((part.slurm,)))
                part.told = True
            elif now >= stop.until and not part.killed:
                self._send(Signal(part.slurm, "SIGKILL", 0))
                part.killed = True
            elif now >= stop.until + KILL_S and part.killed and now < stop.until + KILL_S + 2 * LOOK_S:
                self._send(Cancel((part.slurm,)))

    def _send(self, request: Request) -> None:
        """Send; what Slurm refuses here is about a job that is over already."""
        with contextlib.suppress(Refused):
            self.door.send(request)

    # ---- polls

    def _poll(self) -> None:
        began = time.monotonic()
        snapshot = self.door.poll()
        self.outage.over()
        extra: list[int] = []
        with self._lock:
            self._narrow.look(snapshot)
            ours: dict[tuple[int, int, int], list[SlurmJob]] = {}
            for job in snapshot.jobs.values():
                key = read_comment(job.comment, self._site.instance)
                if key is not None and self._may_be(key[:2], job):
                    ours.setdefault(key, []).append(job)
            self._owners = {
                key[:2]: self._owners[key[:2]] for key in ours
            }  # of the others Slurm knows nothing any more
            numbers = {job.id for jobs in ours.values() for job in jobs}
            for attempt in self._attempts.values():
                for number, part in enumerate(attempt.parts):
                    own_jobs = ours.pop((attempt.job, attempt.number, number), [])
                    extra += self._match(attempt, number, part, own_jobs, began)
            extra += [
                job.id for key, jobs in ours.items() if self._given_up(key) for job in jobs if job.holds or job.waits
            ]
            self._over &= self._owners.keys()
            self._see_nodes(snapshot, numbers)
        for number in extra:
            self._send(Cancel((number,)))

    def _match(self, attempt: Attempt, number: int, part: PartRun, jobs: list[SlurmJob], began: float) -> list[int]:
        """Compare a part with what Slurm knows of it; returns Slurm jobs that are too many."""
        if part.unsure and part.sent_at > began:
            return []  # submitted while Slurm was asked
        sure = len(jobs) == 1 and jobs[0].id == part.slurm  # no need to look which of several runs
        claimed = "" if sure else attempt.claimed(number)
        # Of several the one that claimed the part, then the one that we know of, then the first.
        mine = min(jobs, key=lambda job: (str(job.id) != claimed, job.id != part.slurm, job.id), default=None)
        if mine is None:
            self._missing(attempt, number, part, claimed)
            return []
        if part.slurm != mine.id:
            part.over_since = None
        part.slurm, part.unsure, part.submit, part.seen, part.gone_since = mine.id, False, None, mine, None
        if not mine.holds and not mine.waits and part.over_since is None:
            part.over_since = time.monotonic()
        part.sent_at = part.sent_at or began  # an earlier manager sent it: patience begins anew
        if not attempt.late:
            attempt.lacks = self._narrow.lacks(attempt.job, mine, part.asked, time.monotonic())
            too_long = mine.waits and time.monotonic() - part.sent_at > self.patience_s
            if too_long and mine.reason == "Resources" and len(attempt.nodes) == 1:
                self._narrow.shut(attempt.nodes, time.monotonic())
            attempt.late = too_long or bool(attempt.lacks)
        late = [part_run.slurm for part_run in attempt.parts if attempt.late and part_run.slurm is not None]
        return [job.id for job in jobs if job is not mine and (job.holds or job.waits)] + late

    def _missing(self, attempt: Attempt, number: int, part: PartRun, claimed: str) -> None:
        """Slurm does not know the part: it was never accepted, or it is gone."""
        if part.unsure and not attempt.adopted and not claimed:
            part.unsure = False  # submit it again; if the first submission turns up all the same, only one of them runs
        elif part.unsure and attempt.forbid(number):
            part.unsure, part.revoked = False, True
        elif part.slurm is not None or claimed:
            part.gone_since = part.gone_since if part.gone_since is not None else time.monotonic()

    def _may_be(self, key: tuple[int, int], job: SlurmJob) -> bool:
        """Whether a Slurm job that says so can be this attempt: anybody may write a comment, but not run under its account."""
        if key not in self._owners:
            known_attempt = self._attempts.get(key) or read_attempt(self.folder(*key), *key)
            if known_attempt is None:
                return False
            self._owners[key] = known_attempt.uid
        return ANYBODY in (self._owners[key], job.uid) or job.uid == self._owners[key]

    def _given_up(self, key: tuple[int, int, int]) -> bool:
        return key[:2] in self._over or (self.folder(*key[:2]) / "revoked").exists()

    def _see_nodes(self, snapshot: Snapshot, ours: Set[int]) -> None:
        self._site = Site(
            self._site.instance, self.options, {node.name: node for node in snapshot.nodes} or self._site.nodes
        )
        known, _ = discovery.remembered(self.data) if not self._nodes else ([], [])
        names = [node.node for node in self._nodes] or [node.name for node in known]
        shut = self._narrow.shut_nodes(time.monotonic())
        seen = capacity.node_reports(snapshot, names, ours, self.options, self._lost.look(snapshot), shut)
        changed, self._nodes, self._nodes_new = seen != self._nodes, seen, True
        if changed:
            self._wake()

    # ---- folders

    def _look(self, key: tuple[int, int]) -> None:
        """Look at the files of an attempt, and report what is new."""
        attempt, now = self._attempts[key], time.monotonic()
        if not attempt.started and attempt.gone_up:
            attempt.started = True
            self._narrow.started(attempt.job)
            self._tell(Report(STARTED, *key, at=written(attempt.own / "go")))
        progress, attempt.reported = read_progress(attempt.own / "report.json", attempt.reported)
        over = [attempt.part_over(number, now) for number in range(len(attempt.parts))]
        if not all(over):
            if progress:
                self._tell(Report(PROGRESSED, *key, progress=progress))
            if any(over):
                self._end_others(attempt, over, now)
            return
        report = attempt.report()
        if report.lost:
            attempt.revoke()
        del self._attempts[key]
        self._over.add(key)
        self._tell(replace(report, progress=progress, at=attempt.ended_at()))

    def _end_others(self, attempt: Attempt, over: list[bool], now: float) -> None:
        """One part is over: the others cannot go on without it."""
        attempt.seen_over = attempt.seen_over or now
        if attempt.stop is None and now - attempt.seen_over >= APART_S:
            attempt.ask_to_stop("SIGTERM", 0.0)

    def _tell(self, report: Report) -> None:
        self._reports.append(report)
        self._wake()
