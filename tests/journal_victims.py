"""Which jobs were stopped and migrated for which job, worked out again from the journal (docs/semantics.md, rules 4 to 9 and 14 to 16)."""

from collections import Counter
from typing import Any

from tests.equivalence.exact_placement import consolidated, fewest, spread
from tests.journal_checker import Account, Entry, Place, Walk

from headway.core.events import MIGRATE, PROMISE, START, STOP
from headway.core.keys import INSTANT_S
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
    """Also checks each decision: victims come after the job that they make room for, and are the least set of rule 8."""

    def __init__(self, run: Any) -> None:
        super().__init__(run)
        self.key = KEYS.get(run.policy.name.split("?")[0])
        self.placement = run.placement.name.split("?")[0] if "strict=no" not in run.placement.name else ""
        self.thresholds = (*run.policy.thresholds, float("inf"))
        self.costs = [float(row["save"] + row["resume"]) for row in run.jobs]
        self.standing: dict[int, Place] = {}  # promises that the decision being checked keeps

    def cross(self, job: Account, entry: Entry) -> None:
        """Without a quantum, service is what was crossed, exactly."""
        super().cross(job, entry)
        if entry.level > job.level and self.policy.quantum == float("inf"):
            job.service = self.thresholds[job.level]

    def look_at(self, decision: list[Entry]) -> None:
        """Check all promises for which jobs are stopped or migrated."""
        if self.key is None or not any(entry.kind in (STOP, MIGRATE) for entry in decision):
            return
        now = decision[0].time
        order = {j: self.order(j, now) for j, job in enumerate(self.jobs) if job.state != JobState.COMPLETED}
        rows = [entry for entry in decision if entry.kind in (START, PROMISE, STOP, MIGRATE)]
        placed = {entry.job for entry in rows if entry.kind in (START, PROMISE) and entry.places}
        withdrawn = {entry.job for entry in rows if entry.kind == PROMISE and not entry.places}
        self.standing = {
            j: job.promise for j, job in enumerate(self.jobs) if job.promise and j not in placed | withdrawn
        }
        soon = self.soon() - self.promised_to_migrating()
        gone: set[int] = set()
        for i, entry in enumerate(rows):
            if entry.kind in (STOP, MIGRATE) or not entry.places:
                continue
            moved = self.released_for(rows, i, MIGRATE)
            victims = self.released_for(rows, i + len(moved), STOP)
            if moved:
                self.check_moved(entry, moved, victims, soon, order, gone)
                for migrated in rows[i + 1 : i + 1 + len(moved)]:
                    soon.subtract(dict(migrated.places))
            elif victims:
                for victim in victims:
                    assert order[victim] > order[entry.job], f"{entry}: job {victim} comes before it"
                if self.can_be_checked(entry.job, order, placed):
                    room = soon - self.promised_before(entry.job, order)
                    self.check_victims(entry, victims, room, order, gone)
            gone.update(moved + victims)
            soon = soon + self.held(moved + victims)
            soon.subtract(dict(entry.places))

    def check_moved(
        self, entry: Entry, moved: list[int], victims: list[int], soon: Counter[int], order: Any, gone: set[int]
    ) -> None:
        """Check rules 14 and 15: smaller jobs before it migrate, later ones stop, and without migrations it has no place."""
        j, now = entry.job, entry.time
        assert self.policy.defragment_after < float("inf"), f"{entry}: {moved} are moved, {victims} stopped"
        for k in moved:
            assert self.jobs[k].gpus < self.jobs[j].gpus, f"{entry}: job {k} is moved, and not smaller"
            assert order[k] < order[j], f"{entry}: job {k} comes after it, and is moved"
        for k in victims:
            assert order[k] > order[j], f"{entry}: job {k} comes before it"
        able = [k for k in self.can_stop(now, gone) if order[k] > order[j]]
        if self.placement in ("spread", "consolidated"):
            assert not self.placed(j, soon + self.held(able)), f"{entry}: jobs are moved in vain"
            self.tally["moves worked out"] += len(moved)

    def promised_to_migrating(self) -> Counter[int]:
        """Return the GPUs promised to migrating jobs, by node: no other job takes them (rule 12)."""
        kept: Counter[int] = Counter()
        for j, promise in self.standing.items():
            if self.jobs[j].migrating:
                kept.update(promise)
        return kept

    def can_stop(self, now: float, gone: set[int]) -> list[int]:
        """Who had its turn, and is not stopped by this decision yet."""
        return [
            k
            for k, other in enumerate(self.jobs)
            if other.state == JobState.RUNNING
            and other.started < now
            and other.started + other.turn <= now + INSTANT_S
            and k not in gone
        ]

    def order(self, j: int, now: float) -> tuple[float, float, int]:
        """Where a job stands now."""
        job = self.jobs[j]
        account = Account(**vars(job))
        account.settle(now)
        return (*self.key(account, float(self.run.workload.submit_s[j])), j)

    def released_for(self, rows: list[Entry], i: int, kind: int) -> list[int]:
        """Return the jobs of the rows of this kind right after row i."""
        jobs = []
        for entry in rows[i + 1 :]:
            if entry.kind != kind:
                break
            jobs.append(entry.job)
        return jobs

    def can_be_checked(self, j: int, order: Any, placed: set[int]) -> bool:
        """Whether no reservation of another can limit where the job is placed, and the placement is one that is known here."""
        ahead = [
            k
            for k, other in enumerate(self.jobs)
            if other.state == JobState.PENDING and order[k] < order[j] and k not in placed and k not in self.standing
        ]
        never_late = self.jobs[j].turn == 0.0 == self.costs[j]
        return self.placement in ("spread", "consolidated") and (never_late or not ahead)

    def promised_before(self, j: int, order: Any) -> Counter[int]:
        """Return the GPUs, by node, of promises that the decision keeps for jobs before this one."""
        kept: Counter[int] = Counter()
        for k, promise in self.standing.items():
            if self.jobs[k].state == JobState.PENDING and not self.jobs[k].migrating and order[k] < order[j]:
                kept.update(promise)
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
        """Check the least set of rule 8, and the place of the job."""
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
    return WalkWithKeys(run).check()
