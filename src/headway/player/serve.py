"""Serve a recorded run on a port of this machine: the read-only routes of a manager, with `at`, behind the same checks."""

import socket
import sys
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Literal

from fastapi import Depends, FastAPI, Query

from headway import __version__, web
from headway.client.client import dashboard_link
from headway.client.folder import TOKEN_FILE
from headway.client.job import JobQuery, JobView
from headway.errors import BadInput
from headway.io.accounts import own_account
from headway.live.errors import NotFound
from headway.live.http.access import ABOUT_A_JOB, REFUSALS, JobId, Reader
from headway.live.http.api import JobPage, handle_errors
from headway.live.http.guard import Guard
from headway.live.http.server.connections import make_server
from headway.live.http.tokens import Tokens
from headway.live.http.watch_routes import MOST_STEPS, OVERVIEW_SHOWS, QUEUE_SHOWS, Me, add_reasons, queue_query
from headway.live.queries.answers import NetworkView, Overview, QueuePage, Story, Trend
from headway.live.queries.explain.explain import Explanation
from headway.player import scenes, wires
from headway.player.film import Film, FilmFrame
from headway.sim.results.result import Result

At = Annotated[
    float | None, Query(allow_inf_nan=False, ge=-1e15, le=1e15, description="A time of the trace; default: its start.")
]


def make_player(film: Film) -> FastAPI:
    """The application; it is served behind a Guard."""
    api = FastAPI(title="Headway: a recorded run", version=__version__, docs_url=None, redoc_url=None)
    handle_errors(api)
    _cluster(api, film)
    _jobs(api, film)
    add_reasons(api)
    web.add_pages(api)
    return api


def _frame(film: Film, at: float | None) -> FilmFrame:
    return film.at(film.first if at is None else at)


def _cluster(api: FastAPI, film: Film) -> None:
    @api.get("/v1/me", responses=REFUSALS)
    def me(caller: Reader) -> Me:
        """Who asks: whoever started the player, who may look."""
        return Me(name=caller.name, user=caller.user, scope="read", expires=None)

    @api.get("/v1/overview", responses=REFUSALS, response_model_exclude=OVERVIEW_SHOWS)
    def overview(caller: Reader, at: At = None) -> Overview:
        """The cluster at one moment."""
        return scenes.overview(_frame(film, at))

    @api.get("/v1/trend", responses=REFUSALS)
    def trend(caller: Reader, at: At = None, steps: Annotated[int, Query(ge=1, le=MOST_STEPS)] = 120) -> Trend:
        """How it went from the start of the run to a moment."""
        return scenes.trend(_frame(film, at), steps)

    @api.get("/v1/network", responses=REFUSALS, response_model_exclude=QUEUE_SHOWS)
    def network(caller: Reader, at: At = None) -> NetworkView:
        """Switches, and who uses which links."""
        return wires.network(_frame(film, at))


def _jobs(api: FastAPI, film: Film) -> None:
    def seen(number: int) -> int:
        if not 1 <= number <= film.jobs:
            raise NotFound(f"there is no job {number}: the run has {film.jobs}")
        return number - 1

    @api.get("/v1/queue", responses=REFUSALS, response_model_exclude=QUEUE_SHOWS)
    def queue(
        caller: Reader,
        query: Annotated[JobQuery, Depends(queue_query)],
        at: At = None,
    ) -> QueuePage:
        """The jobs that are there at a moment."""
        return scenes.queue_page(_frame(film, at), query)

    @api.get("/v1/jobs", responses=REFUSALS)
    def ended(
        caller: Reader,
        at: At = None,
        name: Annotated[str, Query(max_length=200)] = "",
        newest: Literal[True] = True,
        after_id: Annotated[int, Query(ge=0, le=2**53)] = 0,
        limit: Annotated[int, Query(ge=1, le=1000)] = 100,
    ) -> JobPage:
        """The jobs that have ended by then, by number, the last first."""
        query = JobQuery(name=name, descending=newest, after_id=after_id, limit=limit)
        views = scenes.ended(_frame(film, at), query)
        return JobPage(jobs=views, next_after_id=views[-1].job_id if len(views) == limit else None)

    @api.get("/v1/jobs/{job_id}", responses=ABOUT_A_JOB)
    def show(job_id: JobId, caller: Reader, at: At = None) -> JobView:
        """One job at a moment."""
        frame, j = _frame(film, at), seen(job_id)
        (view,) = scenes.job_views(frame, [j])
        return replace(view, slice=wires.slice_of(frame, j))

    @api.get("/v1/jobs/{job_id}/explain", responses=ABOUT_A_JOB)
    def explain(job_id: JobId, caller: Reader, at: At = None) -> Explanation:
        """Why it waits at a moment."""
        return scenes.explanation(_frame(film, at), seen(job_id))

    @api.get("/v1/jobs/{job_id}/story", responses=ABOUT_A_JOB)
    def story(job_id: JobId, caller: Reader, at: At = None) -> Story:
        """Its life up to a moment."""
        return scenes.story(_frame(film, at), seen(job_id))


def play(result: Result, port: int = 0) -> None:
    """Serve a run on this machine until Ctrl-C. The link that is printed carries a session: only its reader can open the page."""
    film = Film(result)
    with tempfile.TemporaryDirectory(prefix="headway-player-") as folder, socket.socket() as listening:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listening.bind(("127.0.0.1", port))
        except OSError as error:
            raise BadInput(
                f"cannot listen on port {port}: {error.strerror}; give another --port (0: any free)"
            ) from None
        listening.listen(64)
        port = listening.getsockname()[1]
        tokens = Tokens(Path(folder), own_account()[1])
        hosts = [f"127.0.0.1:{port}", f"localhost:{port}"]
        session = tokens.sign_in((Path(folder) / TOKEN_FILE).read_text("ascii").strip())
        link = dashboard_link(f"http://127.0.0.1:{port}", f"session={session}")
        print(f"watch the run at {link}  (Ctrl-C ends)", file=sys.stderr, flush=True)
        make_server(Guard(make_player(film), tokens, hosts)).run(sockets=[listening])
