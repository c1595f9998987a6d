"""A decision of the second implementation: rules 4 to 11 and 29 of docs/semantics.md, naively."""

from copy import copy
from dataclasses import dataclass

from tests.equivalence.exact import INF, RUNNING, STARTING, STOPPING, WAITING, Exact, Job, Place, Seconds

from headway.core.deciding.reservations import PATIENCE


def spread(offer: list[int], gpus: int) -> Place | None:
    """One GPU after the other from the node with the most left."""
    left, place = list(offer), {}
    if sum(left) < gpus:
        return None
    for _ in range(gpus):
        node = left.index(max(left))
        left[node] -= 1
        place[node] = place.get(node, 0) + 1
    return place


def consolidated(offer: list[int], gpus: int, most: int) -> Place | None:
    """On at most so many nodes: the fullest that will hold what is left of it, or else the emptiest whole."""
    left, place = list(offer), {}
    while gpus > 0:
        enough = [x for x in range(len(left)) if left[x] >= gpus]
        node = min(enough, key=lambda x: left[x]) if enough else left.index(max(left))
        if left[node] == 0 or len(place) == most:
            return None
        place[node] = min(gpus, left[node])
        left[node] -= place[node]
        gpus -= place[node]
    return place


def fewest(nodes: tuple[int, ...], gpus: int) -> int:
    """The fewest nodes that have so many GPUs together."""
    count = 0
    for size in sorted(nodes, reverse=True):
        if gpus <= 0:
            break
        gpus, count = gpus - size, count + 1
    return count


@dataclass
class Reservation:
    """Rule 10: a place, a bound (infinity: not known), and what remains beside it on its nodes."""

    place: Place
    bound: Seconds
    beside: Place


class Decision:
    """One decision, performed as it is made; jobs that it starts or stops are still where they were for the rest of it."""

    def __init__(self, world: Exact) -> None:
        self.world, self.rules, self.now = world, world.rules, world.now
        taken = [0] * len(self.rules.nodes)
        soon = [0] * len(self.rules.nodes)
        for job in world.those(STARTING, RUNNING, STOPPING):
            for node, gpus in job.place.items():
                taken[node] += gpus
                soon[node] += gpus if job.state == STOPPING else 0
        self.free = [a - b for a, b in zip(self.rules.nodes, taken, strict=True)]
        self.soon = [a + b for a, b in zip(self.free, soon, strict=True)]
        self.with_gpus = world.those(STARTING, RUNNING)  # and those that this decision starts; less those that it stops
        self.with_promise: list[Job] = []  # those that wait for their promise
        self.keys = {job.number: self.rules.key(job) for job in world.jobs}  # the order as of now
        self.reserving: Job | None = None
        self.reservation: Reservation | None = None
        self.unseated: list[Job] = []  # those who found no place
        self.moved = self.stopped = False  # whether jobs were, in this decision

    def run(self) -> bool:
        """Rules 4, 5, 9 and 29. Returns whether there is another decision at once."""
        for job in sorted(self.world.those(STOPPING), key=lambda job: job.promised):
            if job.promise and fits(job.promise, self.soon):
                self.set_aside(job)
        if self.world.may_stop or not self.world.those(WAITING):
            self.world.look_at = INF
        waiting = sorted(self.world.those(WAITING), key=self.order)
        if not self.world.may_stop or (self.rules.tidies and self.world.moved_at == self.now):
            kept = [job for job in sorted(waiting, key=lambda job: job.promised) if job.promise and self.keep(job)]
            waiting = [job for job in waiting if job not in kept]
        refused = set()
        for job in waiting:
            if job.gpus in refused or self.seat(job) or self.clear(job):
                continue
            self.unseated.append(job)
            if self.rules.policy == "fifo":
                break
            if not self.held_back(job):
                refused.add(job.gpus)
            if self.rules.reserves and self.reserving is None and self.placed(job, list(self.rules.nodes)):
                self.reserving = job
        for job in self.world.those(WAITING):
            if job.promise and job not in self.with_promise:
                self.world.withdraw(job)
        if self.reserving is not None and self.world.may_stop and self.reserving.queued + self.rules.clears > self.now:
            self.world.look_at = self.reserving.queued + self.rules.clears
        return self.moved or self.may_tidy()

    def may_tidy(self) -> bool:
        """Rule 30: jobs were stopped, and there are GPUs enough for the first that found no place."""
        if not (self.rules.tidies and self.stopped and self.world.may_stop and self.unseated):
            return False
        return sum(self.soon) >= self.unseated[0].gpus

    def held_back(self, job: Job) -> bool:
        """Rule 5: only a reservation keeps it from GPUs that are free, so it does not speak for others of its size."""
        return not self.rules.preempts and bool(self.placed(job, self.free)) and self.is_late(job, self.now)

    def order(self, job: Job) -> tuple[Seconds, ...]:
        """Smallest first."""
        return self.keys[job.number]

    def placed(self, job: Job, offer: list[int]) -> Place | None:
        """What the placement chooses."""
        if self.rules.consolidated:
            return consolidated(offer, job.gpus, fewest(self.rules.nodes, job.gpus))
        return spread(offer, job.gpus)

    def take(self, place: Place) -> None:
        """What a job gets is no longer there for those after it."""
        for node, gpus in place.items():
            self.soon[node] -= gpus

    def start(self, job: Job, place: Place) -> None:
        """Start it on GPUs that are free."""
        for node, gpus in place.items():
            self.free[node] -= gpus
        self.take(place)
        self.world.start(job, place)
        self.with_gpus.append(job)

    def keep(self, job: Job) -> bool:
        """Rule 9, where nobody may be stopped: the job starts where it was promised, or that is set aside."""
        if fits(job.promise, self.free):
            self.start(job, job.promise)
            return True
        if fits(job.promise, self.soon):
            self.set_aside(job)
            return True
        return False

    def set_aside(self, job: Job) -> None:
        """The job goes on waiting for its promise, which takes what is free first."""
        for node, gpus in job.promise.items():
            self.free[node] -= min(gpus, self.free[node])
        self.take(job.promise)
        self.with_promise.append(job)

    def seat(self, job: Job) -> bool:
        """Rule 4, and rule 11 for a late job."""
        stands = bool(job.promise) and fits(job.promise, self.soon)
        if stands and fits(job.promise, self.free):
            self.start(job, job.promise)
            return True
        if self.reserving is not None and not self.has_place(job):
            return False
        late = self.is_late(job, self.now)
        place = self.placed(job, self.offer(self.free, late))
        if place:
            self.start(job, place)
        elif stands:
            self.set_aside(job)
            return True
        else:
            return self.made_soon(job, late)
        if place and late:
            self.give_beside(place)
        return bool(place)

    def has_place(self, job: Job) -> bool:
        """Whether rule 4 would seat it were nothing reserved."""
        able = self.able(job) if self.world.may_stop and self.rules.preempts else []
        return bool(self.placed(job, self.soon) or self.placed(job, self.with_places(able)))

    def made_soon(self, job: Job, late: bool) -> bool:
        """Rules 4.4 and 4.5: a promise. Whether the job is late counts from when it starts."""
        place = None
        late = late or self.is_late(job, self.all_stopped())
        if self.world.those(STOPPING):
            place = self.placed(job, self.offer(self.soon, late))
        victims: list[Job] = []
        if not place and self.world.may_stop and self.rules.preempts:
            victims = self.victims(job, late)
            starts = max([self.all_stopped(), *(self.now + victim.save for victim in victims)])
            if victims and not late and self.is_late(job, starts):
                late = True
                victims = self.victims(job, late)
            place = self.placed(job, self.offer(self.with_places(victims), late)) if victims else None
        if place and late:
            self.give_beside(place)
        if place:
            self.soon = self.with_places(victims)
            self.world.reserve(job, place)
            self.set_aside(job)
            for victim in victims:
                self.with_gpus.remove(victim)
                self.world.stop(victim)
                self.stopped = True
        return bool(place)

    def with_places(self, jobs: list[Job]) -> list[int]:
        """What is free soon and what these jobs hold."""
        places = [job.promise if job in self.with_promise else job.place for job in jobs]
        return [soon + sum(place.get(x, 0) for place in places) for x, soon in enumerate(self.soon)]

    def able(self, job: Job) -> list[Job]:
        """Rule 6: who can be stopped for it."""
        return [one for one in self.with_gpus if self.can_be_stopped(one) and self.order(one) > self.order(job)]

    def victims(self, job: Job, late: bool) -> list[Job]:
        """Rules 6 and 7; empty: nobody can make room."""
        able = sorted(self.able(job), key=self.order)
        if not self.placed(job, self.offer(self.with_places(able), late)):
            return []
        for one in list(able):
            others = [other for other in able if other is not one]
            if self.placed(job, self.offer(self.with_places(others), late)):
                able = others
        return able

    def can_be_stopped(self, job: Job) -> bool:
        """Rule 6."""
        return job.state == RUNNING and job.began < self.now and self.rules.turn_over(job) <= self.now

    # Moves

    def clear(self, job: Job) -> bool:
        """Rule 29: whether smaller jobs are moved for the first one that waits."""
        if not self.world.may_stop or self.reserving is not None:
            return False
        able = sorted(self.able(job), key=self.order)
        soon, movable = self.soon, [one for one in self.with_gpus if self.can_be_stopped(one) and one.gpus < job.gpus]
        if self.now < job.queued + self.rules.clears:
            if not self.rules.tidies:
                return False
            able, soon = [], less(self.soon, self.promised_to_others(job))
        small = [one for one in movable if one not in able]
        small.sort(key=self.order)
        could = [a + b for a, b in zip(soon, held(able, len(soon)), strict=True)]
        cleared = held(small, len(soon))
        for most in range(1, max(cleared) + 1):
            place = self.placed(job, [a + b if b <= most else a for a, b in zip(could, cleared, strict=True)])
            if place:
                break
        else:
            return False
        given = [place.get(x, 0) for x in range(len(could))]
        movers = needed(small, less(given, could))
        left = held(movers, len(could))
        places = []
        for one in movers:
            whole = [a + b for a, b in zip(could, left, strict=True)]
            its = self.placed(one, at_least_0(less(soon, given))) or self.placed(one, at_least_0(less(whole, given)))
            if not its:
                return False
            places.append(its)
            given = [gpus + its.get(x, 0) for x, gpus in enumerate(given)]
        victims = needed(able, less(less(given, soon), left))
        self.soon = self.with_places(movers + victims)
        for one, its in zip([job, *movers], [place, *places], strict=True):
            self.world.reserve(one, its)
            self.set_aside(one)
        for one in movers + victims:
            self.with_gpus.remove(one)
            self.world.stop(one, "Move" if one in movers else "Stop")
        self.moved = self.stopped = True
        return True

    def promised_to_others(self, job: Job) -> list[int]:
        """What those were promised who have not been visited yet, as far as it is there."""
        taken, soon = [0] * len(self.soon), self.soon
        for one in self.world.those(WAITING):
            if one is not job and one not in self.with_promise and one.promise and fits(one.promise, soon):
                taken = [min(soon[x], gpus + one.promise.get(x, 0)) for x, gpus in enumerate(taken)]
        return taken

    # Reservations

    def offer(self, room: list[int], late: bool) -> list[int]:
        """The room for a job: a late one has on the nodes of the reservation only what remains beside it."""
        if not late or self.reservation is None:
            return room
        beside = self.reservation.beside
        return [min(gpus, beside[x]) if x in beside else gpus for x, gpus in enumerate(room)]

    def give_beside(self, place: Place) -> None:
        """A late job was given these GPUs."""
        if self.reservation is not None:
            for node, gpus in place.items():
                if node in self.reservation.beside:
                    self.reservation.beside[node] -= gpus

    def next_look(self, at: Seconds, now: Seconds) -> Seconds:
        """When a job whose turn is over at `at` is looked at, after `now`."""
        if not self.rules.moving or self.rules.quantum == INF:
            return at
        look = -(-at // self.rules.quantum) * self.rules.quantum
        return look if look > now else look + self.rules.quantum

    def gone_by(self, job: Job, reserving: Job, starts: Seconds) -> Seconds:
        """Rule 11: when a waiting job would be gone if it were started then."""
        runs, turn = starts + (job.resume if job.attempts else 0), self.rules.turn(job)
        at = runs + max(0, job.limit - job.ran)
        if not self.rules.preempts or turn == INF:
            return at
        then = copy(job)
        gone = self.next_look(runs + turn, starts)
        turn = gone - runs
        then.left, then.ran_lately, then.served = job.left - turn, job.ran_lately + turn, job.served + turn * job.gpus
        then.first = min(job.first, starts)
        return min(at, gone + job.save) if self.rules.key(then) > self.order(reserving) else at

    def is_late(self, job: Job, starts: Seconds) -> bool:
        """Rule 11; works out the reservation when it is first needed."""
        can_stop = self.rules.preempts and self.rules.turn(job) < INF
        if self.reserving is None:
            return False
        if can_stop and (job.resume if job.attempts else 0) + self.rules.turn(job) + job.save == 0:
            return False
        if self.reservation is None:
            self.reservation = self.work_out(self.reserving)
        if self.reservation.bound == INF:
            return not can_stop
        if can_stop and self.now - self.reserving.queued < int(PATIENCE) * (self.reservation.bound - self.now):
            return False
        return self.gone_by(job, self.reserving, starts) > self.reservation.bound

    def all_stopped(self) -> Seconds:
        """By when those who were asked to stop have stopped."""
        return max([self.now, *(job.due for job in self.world.those(STOPPING))])

    def runs_from(self, job: Job) -> Seconds:
        """Rule 10: when a job with GPUs or with a promise runs, or will."""
        if job in self.with_promise:
            return self.all_stopped() + (job.resume if job.attempts else 0)
        return job.began if job.state == RUNNING else job.due

    def had_by(self, job: Job, reserving: Job) -> Seconds:
        """By when the GPUs of such a job can be had; infinity: not known."""
        runs = self.runs_from(job)
        at = max(self.now, runs) + max(0, job.limit - job.ran)
        if self.rules.preempts and self.order(job) > self.order(reserving):
            at = min(at, self.next_look(max(self.now, runs + self.rules.turn(job)), self.now) + job.save)
        return at

    def work_out(self, reserving: Job) -> Reservation:
        """Rule 10."""
        holders = self.with_gpus + self.with_promise
        times = {job.number: self.had_by(job, reserving) for job in holders}

        def rank(job: Job) -> tuple[Seconds, Seconds, int]:
            at = times[job.number]
            return at, self.runs_from(job) if at == INF else 0, job.number

        ranked = sorted(holders, key=rank)
        for count in range(len(ranked) + 1):
            place = self.placed(reserving, self.with_places(ranked[:count]))
            if place:
                bound = max([self.all_stopped(), *(times[job.number] for job in ranked[:count])])
                gone = [job for job in ranked if times[job.number] <= bound] if bound < INF else ranked[:count]
                room = self.with_places(gone)
                return Reservation(place, bound, {node: room[node] - gpus for node, gpus in place.items()})
        raise AssertionError("every GPU is free soon or counted, and the job could be placed on an empty cluster")


def held(jobs: list[Job], nodes: int) -> list[int]:
    """The GPUs that these hold, by node."""
    return [sum(job.place.get(x, 0) for job in jobs) for x in range(nodes)]


def less(one: list[int], two: list[int]) -> list[int]:
    """The difference, node by node."""
    return [a - b for a, b in zip(one, two, strict=True)]


def at_least_0(room: list[int]) -> list[int]:
    """Nothing where it is less than that."""
    return [max(0, gpus) for gpus in room]


def needed(jobs: list[Job], lacks: list[int]) -> list[Job]:
    """Rule 29: of those on nodes that lack GPUs, from the first to the last each is spared without whom no node lacks any."""
    chosen = [job for job in jobs if any(lacks[x] > 0 for x in job.place)]
    for one in list(chosen):
        others = [job for job in chosen if job is not one]
        if all(gap <= gpus for gap, gpus in zip(lacks, held(others, len(lacks)), strict=True)):
            chosen = others
    return chosen


def fits(place: Place, room: list[int]) -> bool:
    """Whether all of it is there."""
    return all(room[node] >= gpus for node, gpus in place.items())
