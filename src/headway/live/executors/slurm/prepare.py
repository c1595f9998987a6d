"""The folder of an attempt, made before anything is submitted: files for its logs, what the next manager needs, and the submissions."""

import os
from collections.abc import Container
from pathlib import Path

from headway.live.executors import Launch
from headway.live.executors.common.account import account_of
from headway.live.executors.common.environment import user_environment
from headway.live.executors.common.folders import LAUNCH, journal_of, make_folder, set_aside
from headway.live.executors.common.whole_files import write
from headway.live.executors.slurm.attempt import REVOKED, Attempt, PartRun, saved
from headway.live.executors.slurm.render import PORTS, SlurmSite, render
from headway.slurm.requests import Submit


def prepare(launch: Launch, folder: Path, port: int, site: SlurmSite) -> Attempt:
    """Make the folder; the attempt is known to the next manager from here on."""
    if journal_of(folder) is not None:  # its number was used under a lost journal; ranks that still run end themselves
        (folder / REVOKED).touch()
        set_aside(folder)
    who = account_of(launch.user)
    base = user_environment(who)
    if "SLURM_CONF" in os.environ:
        base["SLURM_CONF"] = os.environ["SLURM_CONF"]
    requests = render(launch, str(folder), port, base, site)
    as_user = [Submit(each.script, each.options, who.pw_name if who else None) for each in requests]
    make_folder(folder, launch.files, 0o711)
    # Made here, in a folder that the job cannot write to: so none can be a link to somewhere else.
    logs = [f"rank-{rank}.log" for rank in range(launch.spec.ranks)] + [f"slurm.{k}.log" for k in range(len(as_user))]
    for log in logs:
        os.close(os.open(folder / log, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600))
    if who:
        for made in ("own", *logs):
            os.chown(folder / made, who.pw_uid, who.pw_gid)
    parts = [PartRun(submit=each) for each in as_user]
    uid = who.pw_uid if who else os.geteuid()
    attempt = Attempt(launch.job, launch.attempt, folder, parts, frozenset(launch.nodes), port, uid)
    write(str(folder), LAUNCH, {**saved(attempt), "journal": launch.journal}, durable=True)
    return attempt


def port_of(job: int, used: Container[int]) -> int:
    """Return a port for the ranks of a job that no other running job has."""
    first = job * 7 % len(PORTS)
    ports: tuple[int, ...] = (*PORTS[first:], *PORTS[:first])
    return next(port for port in ports if port not in used)
