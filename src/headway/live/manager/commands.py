"""Commands on jobs and nodes: performed in the engine's thread, answered once they are on disk."""

from collections.abc import Sequence

from headway.cluster.queues import Booking
from headway.errors import HeadwayError
from headway.live.errors import NotFound, WrongState
from headway.live.manager import lifecycle
from headway.live.manager.steps import Note, Steps
from headway.live.manager.world_access import WorldAccess
from headway.live.rows import DRAINED, RESERVED, RESUMED, UNRESERVED
from headway.live.store.archive import archived
from headway.live.store.prune import was_pruned


class ManagerCommands(WorldAccess):
    """The part of the manager that performs commands."""

    def cancel(self, job_id: int, at_once: bool = False) -> None:
        """End a job. Its processes get its preemption signal and grace period, or are killed at once."""
        self._world.ask(lambda now: self._verb("cancel", job_id, now, at_once))

    def hold(self, job_id: int) -> None:
        """Hold a waiting job until it is released."""
        self._world.ask(lambda now: self._verb("hold", job_id, now))

    def release(self, job_id: int) -> None:
        """Let a held job run."""
        self._world.ask(lambda now: self._verb("release", job_id, now))

    def requeue(self, job_id: int, hold: bool = False) -> None:
        """Stop a running job so that it waits again, or let a finished job wait again; with `hold`, until it is released."""
        self._world.ask(lambda now: self._verb("requeue", job_id, now, hold))

    def act(self, verb: str, job_ids: Sequence[int], option: bool = False) -> dict[int, HeadwayError]:
        """Perform one command on many jobs in one round. Return the errors of the jobs that it does not apply to.

        `option` is `at_once` of cancel, or `hold` of requeue.
        """
        refused: dict[int, HeadwayError] = {}

        def every(now: float) -> Steps:
            for job_id in job_ids:
                try:
                    yield from self._verb(verb, job_id, now, option)
                except (NotFound, WrongState) as error:
                    refused[job_id] = error

        self._world.ask(every)
        return refused

    def _verb(self, verb: str, job_id: int, now: float, option: bool = False) -> Steps:
        """Yield the steps of a command on a job, in the engine's thread."""
        state = self._state
        if verb == "requeue":
            yield from self._requeue(job_id, option)
        elif verb == "cancel":
            yield from lifecycle.cancel(state, state.unfinished(job_id), option)
        elif verb == "hold":
            yield from lifecycle.hold(state, state.unfinished(job_id))
        else:
            yield from lifecycle.release(state, state.unfinished(job_id))

    def _requeue(self, job_id: int, hold: bool) -> Steps:
        """Yield the steps of a requeue; a retired job is recalled first. Refuse a job that was pruned."""
        state = self._state
        final = state.final_of(job_id)
        if final and was_pruned(self._journal, job_id):
            raise WrongState(f"job {job_id} ended as {final.name}, and its job file was pruned: submit it anew")
        if state.past.final_of(job_id):
            past = self._journal.read(lambda connection: archived(connection, job_id))
            yield from lifecycle.recall(state, job_id, past)
        job = state.job_named(job_id)
        if final:
            state.count_again(job)
        yield from lifecycle.requeue(state, job, hold)

    def drain(self, node: str) -> None:
        """Start no more jobs on a node; running jobs go on."""
        self._change_node(node, DRAINED)

    def resume(self, node: str) -> None:
        """Use a drained node again."""
        self._change_node(node, RESUMED)

    def _change_node(self, node: str, kind: str) -> None:
        self._check_nodes([node])
        self._world.ask(lambda now: iter([Note(kind, data={"node": node})]))

    def reserve(self, nodes: Sequence[str], queue: str, begin: float, end: float) -> None:
        """Reserve nodes for a queue for a time. Preemptible jobs on them are stopped when it begins."""
        booking = Booking(tuple(dict.fromkeys(nodes)), queue, begin, end, True)

        def act(now: float) -> Steps:
            self._state.teams.check_booking(booking, now)
            about = {"nodes": list(booking.nodes), "queue": queue, "from": begin, "to": end}
            yield Note(RESERVED, data=about)

        self._check_nodes(nodes)
        self._world.ask(act)

    def unreserve(self, nodes: Sequence[str]) -> None:
        """End the advance reservations of these nodes that people made."""

        def act(now: float) -> Steps:
            self._state.teams.check_unbook(nodes)
            yield Note(UNRESERVED, data={"nodes": list(nodes)})

        self._world.ask(act)

    def _check_nodes(self, nodes: Sequence[str]) -> None:
        for node in nodes:
            if node not in self._state.cluster.nodes:
                raise NotFound(f"there is no node {node!r}: `headway nodes` lists them")

    def report(self, job_id: int, attempt: int, **fields: float | None) -> None:
        """Store progress that a job reports (fields of JobProgress). Drop a report of an earlier attempt."""
        values = {name: value for name, value in fields.items() if value is not None}
        self._world.ask(lambda now: lifecycle.job_reported(self._state, job_id, attempt, values, now))
