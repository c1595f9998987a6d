"""Commands on jobs and nodes: performed in the engine's thread, answered when they are on disk."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from headway.cluster.queues import Booking
from headway.core.engine import Event
from headway.errors import HeadwayError
from headway.live.errors import NotFound, WrongState
from headway.live.manager.door import Door
from headway.live.state.learn import DRAINED, RESERVED, RESUMED, UNRESERVED


class Verbs(Door):
    """Does it."""

    def cancel(self, job_id: int, at_once: bool = False) -> None:
        """End a job; its processes get the signal and the grace of its own preemption, or are killed at once."""
        self._world.ask(lambda now: self._verb("cancel", job_id, now, at_once))

    def hold(self, job_id: int) -> None:
        """Keep a waiting job from running until it is released."""
        self._world.ask(lambda now: self._verb("hold", job_id, now))

    def release(self, job_id: int) -> None:
        """Let a held job run."""
        self._world.ask(lambda now: self._verb("release", job_id, now))

    def requeue(self, job_id: int, hold: bool = False) -> None:
        """Run it again: a running job is stopped first, a finished one waits anew; with `hold` once it is released."""
        self._world.ask(lambda now: self._verb("requeue", job_id, now, hold))

    def act(self, verb: str, job_ids: Sequence[int], option: bool = False) -> dict[int, HeadwayError]:
        """Do one of these verbs to many jobs in one go (`option`: at once, or hold); those that refuse it, each with the reason."""
        refused: dict[int, HeadwayError] = {}

        def every(now: float) -> Iterator[Event]:
            for job_id in job_ids:
                try:
                    yield from self._verb(verb, job_id, now, option)
                except (NotFound, WrongState) as error:
                    refused[job_id] = error

        self._world.ask(every)
        return refused

    def _verb(self, verb: str, job_id: int, now: float, option: bool = False) -> Iterator[Event]:
        """The facts of a verb, in the engine's thread."""
        if verb == "requeue":
            if self._state.past.final_of(job_id):
                self._world.recall(job_id, now)
            return self._world.requeue(self._state.job_named(job_id), now, option)
        job = self._state.unfinished(job_id)
        return self._world.cancel(job, option) if verb == "cancel" else getattr(self._world, verb)(job)

    def drain(self, node: str) -> None:
        """Start nothing more on a node; what runs there goes on."""
        self._change_node(node, DRAINED)

    def resume(self, node: str) -> None:
        """Use a drained node again."""
        self._change_node(node, RESUMED)

    def _change_node(self, node: str, kind: str) -> None:
        self._check_nodes([node])
        self._world.ask(lambda now: self._world.note_about_nodes(kind, now, {"node": node}))

    def reserve(self, nodes: Sequence[str], queue: str, begin: float, end: float) -> None:
        """Keep nodes for a queue for a time; those who are there then, and can be stopped, are."""
        asked = Booking(tuple(dict.fromkeys(nodes)), queue, begin, end, True)

        def act(now: float) -> Iterator[Event]:
            self._state.teams.check_booking(asked, now)
            about = {"nodes": list(asked.nodes), "queue": queue, "from": begin, "to": end}
            yield from self._world.note_about_nodes(RESERVED, now, about)

        self._check_nodes(nodes)
        self._world.ask(act)

    def unreserve(self, nodes: Sequence[str]) -> None:
        """Keep nodes no longer that people reserved."""

        def act(now: float) -> Iterator[Event]:
            self._state.teams.check_unbook(nodes)
            yield from self._world.note_about_nodes(UNRESERVED, now, {"nodes": list(nodes)})

        self._world.ask(act)

    def _check_nodes(self, nodes: Sequence[str]) -> None:
        for node in nodes:
            if node not in self._state.cluster.nodes:
                raise NotFound(f"there is no node {node!r}: `headway nodes` lists them")

    def report(self, job_id: int, attempt: int, **given: float | None) -> None:
        """What a job says about itself (the fields of Progress); reports of another attempt than the present one are dropped."""
        new: Any = {name: value for name, value in given.items() if value is not None}

        def act(now: float) -> Iterator[Event]:
            job = self._state.jobs.get(job_id)
            if job and attempt == self._state.attempt(job) and not job.final:
                yield from self._world.progressed(job, replace(job.progress, **new), now)

        self._world.ask(act)
