"""The Slurm executor: attempts become Slurm jobs on exactly the nodes that were decided, and what happens to them becomes reports.

One thread talks to Slurm: it submits, signals and polls, all jobs in one poll. Between polls it reads the attempts' folders, where ranks
write their progress. While Slurm does not answer, requests wait, with bounded back-off. The comment of a Slurm job names its job, attempt
and part. A file that only one Slurm job can make decides which of them runs a part (script.py). So a submission whose answer was lost is
recognised later, and one that was given up never runs. The table in states.py decides; this file gathers observations and performs actions.
"""

import contextlib
import threading
import time
from collections.abc import Callable, Set
from dataclasses import replace
from pathlib import Path

from headway.errors import HeadwayError
from headway.io import specs
from headway.io.units import counted
from headway.live.executors import (
    ENDED,
    PROGRESSED,
    STARTED,
    Capabilities,
    Discovery,
    Executor,
    Launch,
    NodeReport,
    Report,
)
from headway.live.executors.common.account import account_of
from headway.live.executors.common.folders import journal_of
from headway.live.executors.common.progress import read_progress
from headway.live.executors.slurm import capacity, discovery
from headway.live.executors.slurm.attempt import Attempt, PartRun, claim_of, read_attempt, written
from headway.live.executors.slurm.narrow import Narrow
from headway.live.executors.slurm.outage import Outage
from headway.live.executors.slurm.prepare import port_of, prepare
from headway.live.executors.slurm.render import SlurmSite, read_comment
from headway.live.executors.slurm.states import ActionAnswer, AttemptAction, PartState, Sight, Slurm, Withdrawal, step
from headway.live.fabric.served import fabric_of, with_fabric
from headway.live.state.records import JobProgress
from headway.slurm.commands import Commands
from headway.slurm.requests import Cancel, Rejected, Request, SlurmConnection, Submit
from headway.slurm.rest import Rest
from headway.slurm.snapshot import ANYBODY, SlurmJob, SlurmSnapshot

POLL_S = 2.0
LOOK_S = 0.2  # how often folders are looked into
SHARE = 10.0  # a poll, or a look, that takes a second is repeated after this many seconds at the earliest
PATIENCE_S = 60.0  # Slurm may take so long to start what should fit at once
LONGEST_S = 60.0  # but not later than this
OPTIONS = ("partition", "account", "qos", "reservation", "constraint", "rest", "poll", "fabric")
BUSY = ("limit", "temporarily", "too many", "already completing")  # in refusals that are worth another try


class SlurmExecutor(Executor):
    """Runs attempts as jobs of a Slurm cluster."""

    # Slurm enforces these limits as its operator configured it.
    capabilities = Capabilities(copies_output=True, enforced=frozenset({"cpus", "memory"}))

    def __init__(self, data: Path, options: dict[str, str] | None = None, *, poll_s: float = POLL_S) -> None:
        super().__init__(data)
        settings = dict(options or {})
        specs.check(settings, OPTIONS, "executor slurm")
        self.poll_s = specs.number(settings, "poll") if "poll" in settings else poll_s
        rest = settings.pop("rest", "")
        settings.pop("poll", None)
        self.fabric = fabric_of(settings.pop("fabric")) if "fabric" in settings else None
        self.door: SlurmConnection = Rest(rest) if rest else Commands()
        self.options, self.patience_s = settings, PATIENCE_S
        self.outage = Outage()
        self._attempts: dict[tuple[int, int], Attempt] = {}
        self._over: set[tuple[int, int]] = set()
        self._owners: dict[tuple[int, int], int] = {}
        self._nodes: list[NodeReport] = []
        self._nodes_new = False
        self._lost, self._narrow = capacity.Lost(), Narrow()
        self._site = SlurmSite("", settings, {})
        self._lock = threading.RLock()
        self._poke = threading.Event()
        self._thread: threading.Thread | None = None
        self._closing = False
        self._poll_at = self._look_at = 0.0

    # ---- the hooks

    def discover(self) -> Discovery:
        """Return the nodes with GPUs of Slurm, or of one partition."""
        discovered = discovery.discover(self.door, self.data, self.options)
        return Discovery(with_fabric(discovered.cluster, self.fabric), discovered.note) if self.fabric else discovered

    def check_user(self, user: str) -> None:
        """Refuse a user without an account, if the manager runs as root. Slurm jobs run under that account."""
        account_of(user)

    def open(self, wake: Callable[[], None]) -> None:
        """Poll once, so that the first decision has the nodes; then begin to watch."""
        super().open(wake)
        nodes, _ = discovery.remembered(self.data)
        if not nodes:
            self.discover()
            nodes, _ = discovery.remembered(self.data)
        self._site = SlurmSite(discovery.instance_of(self.data), self.options, {node.name: node for node in nodes})
        self._try(self._poll)
        self._thread = threading.Thread(target=self._run, name="slurm", daemon=True)
        self._thread.start()

    def start(self, launch: Launch) -> None:
        """Write the files of an attempt; the thread submits it."""
        key = (launch.job, launch.attempt)
        with self._lock:
            if key in self._attempts or journal_of(self.folder(*key)) == launch.journal:
                self.adopt(*key)
                return
            used = {attempt.port for attempt in self._attempts.values()}
            self._attempts[key] = prepare(launch, self.folder(*key), port_of(launch.job, used), self._site)
        self._poke.set()

    def stop(self, job: int, attempt: int, signal_name: str, grace_s: float) -> None:
        """Write the request into the attempt's folder; the thread signals its ranks."""
        with self._lock:
            known_attempt = self._attempts.get((job, attempt))
            if known_attempt is not None:
                known_attempt.ask_to_stop(signal_name, grace_s)
        self._poke.set()

    def adopt(self, job: int, attempt: int) -> None:
        """Watch an attempt; its folder and the next poll give its state."""
        with self._lock:
            if (job, attempt) in self._attempts:
                return
            foreign = self.is_foreign(job, attempt)
            known_attempt = None if foreign else read_attempt(self.folder(job, attempt), job, attempt)
            if known_attempt is None:
                self.tell(Report(ENDED, job, attempt, lost=True, never_ran=True, message="it was not submitted"))
                return
            self._attempts[(job, attempt)] = known_attempt
        self._poll_at = 0.0
        self._poke.set()

    def node_reports(self) -> list[NodeReport]:
        """Return the states of all nodes, if Slurm was polled since the last call."""
        with self._lock:
            new, self._nodes_new = self._nodes_new, False
            return self._nodes if new else []

    def remarks(self) -> list[str]:
        """Return remarks for waiting jobs: Slurm does not answer, or GPUs are used outside Headway."""
        now = time.monotonic()
        with self._lock:
            taken = sum(node.taken for node in self._nodes)
            whose = "jobs submitted to Slurm directly, or with more CPUs or memory than go with their GPUs,"
            used = f"{whose} use {counted(taken, 'GPU')}" if taken else ""
            return [remark for remark in (self.outage.words(now), used, self._narrow.words(now)) if remark]

    def close(self) -> None:
        """Stop watching; the Slurm jobs go on."""
        self._closing = True
        self._poke.set()
        if self._thread:
            self._thread.join()

    # ---- the thread

    def _run(self) -> None:
        while not self._closing:
            self._try(self._act)
            now = time.monotonic()
            if now >= self._poll_at and self._try(self._poll):
                took = time.monotonic() - now
                # If a request failed after the poll, `_poll_at` is when the outage allows the next one.
                self._poll_at = max(self._poll_at, now + max(self.poll_s, min(SHARE * took, LONGEST_S)))
            now = time.monotonic()
            if now >= self._look_at:
                for attempt in self._known():
                    with contextlib.suppress(OSError):  # too few descriptors, for example: at the next look
                        self._look(attempt)
                self._look_at = now + max(LOOK_S, SHARE * (time.monotonic() - now))
            seconds = min(self._poll_at, self._look_at) - time.monotonic()
            self._poke.wait(max(0.005, seconds))
            self._poke.clear()

    def _known(self) -> list[Attempt]:
        """Return the attempts that are not over."""
        with self._lock:
            return list(self._attempts.values())

    def _try(self, talk: Callable[[], None]) -> bool:
        """Talk to Slurm, unless it is too early after a failure. The first request after a failure is a poll."""
        if self.outage.waits(time.monotonic()):
            return False
        try:
            talk()
        except Exception as error:  # whatever it is, jobs must not wait for a thread that has ended
            self._failed(error)
            return False
        return True

    def _failed(self, error: Exception) -> None:
        """Note that Slurm did not answer; a poll that is refused is as good as no answer."""
        words = str(error) if isinstance(error, HeadwayError) else f"{type(error).__name__}: {error}"
        self.outage.failed(words, time.monotonic())
        self._poll_at = self.outage.again_at

    # ---- transitions

    def _act(self) -> None:
        """Take the transitions that need no news of Slurm or of the folder: submissions, stops, withdrawals."""
        for attempt in self._known():
            for part in attempt.parts:
                if self._closing:
                    return
                if part.state is PartState.PREPARED or attempt.stop or attempt.withdrawal is not Withdrawal.NONE:
                    self._step(attempt, part, attempt.sight(part, time.monotonic()))

    def _step(self, attempt: Attempt, part: PartRun, sight: Sight) -> None:
        """Perform the action of a part's transition, and take the state that follows from the answer."""
        row = step(part.state, sight)
        if row is not None:
            answer = self._perform(row.action, attempt, part) if row.action else ActionAnswer.DONE
            part.enter(row.after(part.state, answer), time.monotonic())

    def _perform(self, action: AttemptAction, attempt: Attempt, part: PartRun) -> ActionAnswer:
        if action is AttemptAction.FORBID:
            return ActionAnswer.DONE if attempt.forbid(attempt.parts.index(part)) else ActionAnswer.REFUSED
        if action is AttemptAction.WITHDRAW:
            self._withdraw(attempt, part)
            return ActionAnswer.DONE
        answer, words = self._send(attempt.request(action, part))
        if action is AttemptAction.SUBMIT:
            part.sent_at = time.monotonic()
            if answer is ActionAnswer.DONE:
                part.slurm = int(words)
                self.outage.over()
            elif answer is ActionAnswer.REFUSED:
                busy = any(word in words.lower() for word in BUSY)
                attempt.withdraw(Withdrawal.LATE if busy else Withdrawal.REFUSED, words)
        attempt.killed |= action is AttemptAction.KILL and answer in (ActionAnswer.DONE, ActionAnswer.REFUSED)
        return answer

    def _send(self, request: Request) -> tuple[ActionAnswer, str]:
        """Send a request; return the answer with Slurm's words, or the number of a submitted job."""
        if self.outage.waits(time.monotonic()):
            return ActionAnswer.NOT_SENT, ""
        try:
            words = self.door.send(request)
            return ActionAnswer.DONE, str(int(words)) if isinstance(request, Submit) else words
        except Rejected as error:  # of a signal or a cancellation: the job is over already
            return ActionAnswer.REFUSED, str(error)
        except Exception as error:  # perhaps it was carried out
            self._failed(error)
            return ActionAnswer.UNANSWERED, ""

    # ---- polls

    def _poll(self) -> None:
        began = time.monotonic()
        snapshot = self.door.poll()
        self.outage.over()
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
            self._over &= self._owners.keys()
            known = self._known()
            self._see_nodes(snapshot, {job.id for jobs in ours.values() for job in jobs})
        surplus: list[SlurmJob] = []
        for attempt in known:
            for number in range(len(attempt.parts)):
                jobs = ours.pop((attempt.job, attempt.number, number), [])
                surplus += self._match(attempt, number, jobs, began)
        surplus += [job for key, jobs in ours.items() if self._given_up(key) for job in jobs]
        for job in surplus:
            if step(PartState.OVER, Sight(news_of(job))):
                self._send(Cancel((job.id,)))
        self._act()

    def _match(self, attempt: Attempt, number: int, jobs: list[SlurmJob], began: float) -> list[SlurmJob]:
        """Compare a part with what Slurm knows of it, and take the transition; return the Slurm jobs that are too many."""
        part = attempt.parts[number]
        if part.state is PartState.PREPARED:  # a Slurm job with its comment is of a lost journal
            return []
        sure = len(jobs) == 1 and jobs[0].id == part.slurm  # then the claim file need not be read
        claimed = "" if sure else attempt.claimed(number)
        # Prefer the Slurm job that claimed the part, then the one that was submitted last, then the first.
        mine = min(jobs, key=lambda job: (str(job.id) != claimed, job.id != part.slurm, job.id), default=None)
        if mine is None:
            self._step(attempt, part, attempt.sight(part, began, slurm=Slurm.MISSING, claim=claim_of(claimed)))
            return []
        if part.slurm != mine.id:
            part.slurm = mine.id
            self._step(attempt, part, attempt.sight(part, began, slurm=Slurm.REPLACED))
        part.seen, part.sent_at = mine, part.sent_at or began  # an earlier manager sent it: patience begins anew
        self._step(attempt, part, attempt.sight(part, began, slurm=news_of(mine)))
        if attempt.withdrawal is Withdrawal.NONE:
            self._step(attempt, part, attempt.sight(part, began, late=self._is_late(attempt, part, mine)))
        return [job for job in jobs if job is not mine]

    def _is_late(self, attempt: Attempt, part: PartRun, job: SlurmJob) -> bool:
        """Return whether a part waits for too long, or for resources that its nodes lack; note these in `part.lacks`."""
        now = time.monotonic()
        with self._lock:
            part.lacks = self._narrow.lacks(attempt.job, job, part.asked, now)
        return bool(part.lacks) or (job.waits and now - part.sent_at > self.patience_s)

    def _withdraw(self, attempt: Attempt, part: PartRun) -> None:
        """Give up an attempt that Slurm does not start; the next one is not sent to the same node at once."""
        reason = part.seen.reason if part.seen else ""
        if not part.lacks and reason == "Resources" and len(attempt.nodes) == 1:
            with self._lock:
                self._narrow.shut(attempt.nodes, time.monotonic())
        attempt.withdraw(Withdrawal.LATE, part.lacks or reason or "no reason given")

    def _may_be(self, key: tuple[int, int], job: SlurmJob) -> bool:
        """Return whether a Slurm job with the comment of an attempt is its own: any user can copy the comment, but not the account."""
        if key not in self._owners:
            known_attempt = self._attempts.get(key) or read_attempt(self.folder(*key), *key)
            if known_attempt is None:
                return False
            self._owners[key] = known_attempt.uid
        return ANYBODY in (self._owners[key], job.uid) or job.uid == self._owners[key]

    def _given_up(self, key: tuple[int, int, int]) -> bool:
        return key[:2] in self._over or (self.folder(*key[:2]) / "revoked").exists()

    def _see_nodes(self, snapshot: SlurmSnapshot, ours: Set[int]) -> None:
        self._site = SlurmSite(
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

    def _look(self, attempt: Attempt) -> None:
        """Look at the files of an attempt, take the transitions, and report what is new."""
        now = time.monotonic()
        for number, part in enumerate(attempt.parts):
            self._step(attempt, part, attempt.look(number, now))
        progress, attempt.reported = read_progress(attempt.own / "report.json", attempt.reported)
        while action := attempt.next(time.monotonic()):
            if action is AttemptAction.REPORT_END:
                self._end(attempt, progress)
                return
            if action is AttemptAction.REPORT_START:
                with self._lock:
                    self._narrow.started(attempt.job)
                self.tell(Report(STARTED, attempt.job, attempt.number, at=written(attempt.own / "go")))
            if action is AttemptAction.STOP:
                with self._lock:
                    attempt.ask_to_stop("SIGTERM", 0.0)
        if progress:
            self.tell(Report(PROGRESSED, attempt.job, attempt.number, progress=progress))

    def _end(self, attempt: Attempt, progress: JobProgress | None) -> None:
        """Report the end of an attempt, and forget it."""
        key, report = (attempt.job, attempt.number), attempt.report()
        if report.lost:
            attempt.revoke()
        with self._lock:
            del self._attempts[key]
            self._over.add(key)
            self.tell(replace(report, progress=progress, at=attempt.ended_at()))


def news_of(job: SlurmJob) -> Slurm:
    """Return the news of a polled Slurm job."""
    return Slurm.WAITS if job.waits else Slurm.HOLDS if job.holds else Slurm.ENDED
