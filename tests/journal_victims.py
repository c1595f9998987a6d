"""Who was stopped and moved for whom, worked out again from the journal (docs/semantics.md, rules 4 to 8 and 29)."""

from collections import Counter
from typing import Any

from tests.equivalence.exact_decision import consolidated, fewest, spread
from tests.journal_checker import Account, Entry, Place, Walk

from headway.core.events import RESERVE, RESIZE, START, STOP
from headway.job_state import JobState

KEYS: dict[str, Any] = {
    "fifo": lambda job, submit: (submit, 0.0),
    "best-effort": lambda job, submit: (submit, 0.0),
    "backfill": lambda job, submit: (submit, 0.0),
    "sjf": lambda job, submit: (job.left, 0.0),
    "srtf": lambda job, submit: (job.left, 0.0),
    "srsf": lambda job, submit: (job.left * job.gpus, 0.0),
    "las": lambda job, submit: (job.ran, 0.0),
    "2d-las": lambda job, submit: (job.service, 0.0),
    "tiresias-l": lambda job, submit: (float(job.level), job.first),
}


class WalkWithKeys(Walk):
    """Also checks each decision: victims come after the job that they make room for, and are those that rule 7 names."""

    def __init__(self, run: Any) -> None:
        super().__init__(run)
        self.key = KEYS.get(run.policy.name.split("?")[0])
        self.placement = run.placement.name.split("?")[0] if "strict=no" not in run.placement.name else ""
        self.thresholds = (*run.policy.thresholds, float("inf"))
        self.moved_at_no_cost: list[tuple[float, int]] = []  # and those they make way for
        self.costs = [float(row["save"] + row["resume"]) for row in run.jobs]

    def cross(self, job: Account, entry: Entry) -> None:
        """Without a quantum, service is what was crossed, exactly."""
        super().cross(job, entry)
        if entry.level > job.level and self.policy.quantum == float("inf"):
            job.service = self.thresholds[job.level]

    def look_at(self, decision: list[Entry]) -> None:
        """All the promises for which jobs are stopped."""
        if self.key is None or not any(entry.kind in (STOP, RESIZE) for entry in decision):
            return
        now = decision[0].time
        order = {j: self.order(j, now) for j, job in enumerate(self.jobs) if job.state != JobState.COMPLETED}
        rows = [entry for entry in decision if entry.kind in (START, RESERVE, STOP)]
        seated = {entry.job for entry in rows if entry.kind != STOP and entry.places}
        moved = [entry.job for entry in decision if entry.kind == RESIZE]
        soon = self.soon() - self.promised_to_moved()
        gone: set[int] = set()
        for i, entry in enumerate(rows):
            if entry.kind == STOP or not entry.places or entry.job in moved:
                continue
            victims = self.stopped_for(rows, i)
            if moved and rows[i + 1 : i + 2] and rows[i + 1].job == moved[0]:
                victims = self.stopped_for(rows, i + len(moved))
                self.check_moved(entry, moved, victims, soon, order, gone)
                victims = moved + victims
                for one in rows[i + 1 : i + 1 + len(moved)]:
                    soon.subtract(dict(one.places))
            elif victims:
                for victim in victims:
                    assert order[victim] > order[entry.job], f"{entry}: job {victim} comes before it"
                if self.can_be_checked(entry.job, order, seated):
                    room = soon - self.promised_before(entry.job, order, seated)
                    self.check_victims(entry, victims, room, order, gone)
            gone.update(victims)
            soon = soon + self.held(victims)
            soon.subtract(dict(entry.places))

    def check_moved(
        self, entry: Entry, moved: list[int], victims: list[int], soon: Counter[int], order: Any, gone: set[int]
    ) -> None:
        """Rule 29: smaller jobs before it move (at no cost any, and nobody stops), later ones stop, and without that it has no place."""
        j, now = entry.job, entry.time
        at_no_cost = self.policy.tidies and not victims and not any(self.costs)
        assert at_no_cost or self.policy.clears < float("inf"), f"{entry}: {moved} are moved, {victims} stopped"
        self.moved_at_no_cost += [(now, k) for k in (j, *moved) if at_no_cost]
        for k in moved:
            assert self.jobs[k].gpus < self.jobs[j].gpus, f"{entry}: job {k} is moved, and not smaller"
            assert at_no_cost or order[k] < order[j], f"{entry}: job {k} comes after it, and is moved"
        for k in victims:
            assert order[k] > order[j], f"{entry}: job {k} comes before it"
        able = [k for k in self.can_stop(now, gone) if order[k] > order[j]]
        if self.placement in ("spread", "consolidated"):
            assert not self.placed(j, soon + self.held(able)), f"{entry}: jobs are moved in vain"
            self.tally["moves worked out"] += len(moved)

    def promised_to_moved(self) -> Counter[int]:
        """What those will have who are being moved."""
        kept: Counter[int] = Counter()
        for job in self.jobs:
            if job.state == JobState.STOPPING:
                kept.update(job.promise)
        return kept

    def can_stop(self, now: float, gone: set[int]) -> list[int]:
        """Who had its turn, and is not stopped by this decision yet."""
        return [
            k
            for k, other in enumerate(self.jobs)
            if other.state == JobState.RUNNING
            and other.started < now
            and other.started + other.turn <= now
            and k not in gone
        ]

    def order(self, j: int, now: float) -> tuple[float, float, int]:
        """Where a job stands now."""
        job = self.jobs[j]
        account = Account(**vars(job))
        account.settle(now)
        return (*self.key(account, float(self.run.workload.submit_s[j])), j)

    def stopped_for(self, rows: list[Entry], i: int) -> list[int]:
        """The Stops right after a promise."""
        found = []
        for entry in rows[i + 1 :]:
            if entry.kind != STOP:
                break
            found.append(entry.job)
        return found

    def can_be_checked(self, j: int, order: Any, seated: set[int]) -> bool:
        """Whether no reservation of another can limit where the job is placed, and the placement is one that is known here."""
        ahead = [
            k
            for k, other in enumerate(self.jobs)
            if other.state == JobState.PENDING and order[k] < order[j] and k not in seated and not other.promise
        ]
        never_late = self.jobs[j].turn == 0.0 == self.costs[j]
        return self.placement in ("spread", "consolidated") and (never_late or not ahead)

    def promised_before(self, j: int, order: Any, seated: set[int]) -> Counter[int]:
        """What jobs before it go on waiting for."""
        kept: Counter[int] = Counter()
        for k, other in enumerate(self.jobs):
            if other.state == JobState.PENDING and other.promise and order[k] < order[j] and k not in seated:
                kept.update(other.promise)
        return kept

    def held(self, jobs: list[int]) -> Counter[int]:
        """The GPUs of jobs, by node."""
        return Counter(self.node[gpu] for j in jobs for gpu in self.jobs[j].seats)

    def placed(self, j: int, room: Counter[int]) -> Place | None:
        """What the placement chooses."""
        nodes, gpus = tuple(self.run.cluster.gpus), self.jobs[j].gpus
        offer = [max(0, room[x]) for x in range(len(nodes))]
        return (
            consolidated(offer, gpus, fewest(nodes, gpus)) if self.placement == "consolidated" else spread(offer, gpus)
        )

    def check_victims(self, entry: Entry, victims: list[int], soon: Counter[int], order: Any, gone: set[int]) -> None:
        """Rule 7, and the place of rule 8."""
        j, now = entry.job, entry.time
        able = [k for k in self.can_stop(now, gone) if order[k] > order[j]]
        for k in sorted(able, key=order.__getitem__):
            others = [other for other in able if other != k]
            if self.placed(j, soon + self.held(others)):
                able = others
        assert sorted(able) == sorted(victims), f"{entry}: stops {sorted(victims)}, but {sorted(able)} would do"
        place = self.placed(j, soon + self.held(able))
        assert place == dict(entry.places), f"{entry}: {place} would be its place"
        self.tally["victims worked out"] += 1


def check_journal(run: Any) -> Counter[str]:
    """Check the whole journal of a run; how often each thing was checked."""
    walk = WalkWithKeys(run)
    tally = walk.check()
    started = {(float(row["time"]), int(row["job"])) for row in run.entries if row["kind"] == START}
    for at, job in walk.moved_at_no_cost:
        assert (at, job) in started, f"{at:g}: jobs were moved at no cost, and job {job} does not run at that instant"
    return tally
