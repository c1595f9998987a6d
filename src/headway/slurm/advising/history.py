"""The jobs that a Slurm ran: by its accounts (sacct) where it keeps any, otherwise those that slurmctld still remembers (squeue)."""

from datetime import datetime

from headway.slurm.answers import gpus_in
from headway.slurm.commands import Commands
from headway.slurm.requests import NoAnswer, Rejected
from headway.slurm.snapshot import SlurmJob

FIELDS = (
    *(
        "JobIDRaw",
        "JobName",
        "User",
        "Partition",
        "State",
        "ReqTRES",
        "AllocTRES",
        "Submit",
        "Eligible",
        "Start",
        "End",
    ),
    *("TimelimitRaw", "NNodes", "ExitCode"),
)
NEVER = ("", "Unknown", "None", "INVALID")


def history(door: Commands, since: float) -> tuple[list[SlurmJob], str]:
    """Jobs submitted since then, and where they are from."""
    day = datetime.fromtimestamp(since).strftime("%Y-%m-%dT%H:%M:%S")
    source = "sacct"
    try:
        jobs = read_accounts(door.accounting(FIELDS, day))
        if jobs and not any(job.gpus for job in jobs):
            source = "its accounts count no GPUs: AccountingStorageTRES=gres/gpu in slurm.conf makes them"
    except Rejected:
        source = "Slurm keeps no accounts"
    except NoAnswer:
        source = "slurmdbd, which has the accounts, does not answer"
    if source != "sacct":
        jobs, source = list(door.poll().jobs.values()), f"squeue ({source}; only what slurmctld still remembers)"
    return [job for job in jobs if job.submitted >= since], source


def read_accounts(text: str) -> list[SlurmJob]:
    """Jobs of `sacct --parsable2`. Job names may hold bars: there are as many fields before the name as after it."""
    jobs = []
    for line in text.splitlines():
        words = line.split("|")
        extra = len(words) - len(FIELDS)
        if extra < 0:
            continue
        words = [words[0], "|".join(words[1 : 2 + extra]), *words[2 + extra :]]
        fields = dict(zip(FIELDS, words, strict=True))
        if fields["JobIDRaw"].isdigit():
            jobs.append(_job(fields))
    return jobs


def _job(fields: dict[str, str]) -> SlurmJob:
    limit = fields["TimelimitRaw"]
    gpus = max(_gpus(fields["AllocTRES"]), _gpus(fields["ReqTRES"]))
    state = fields["State"].split()[0] if fields["State"] else ""  # CANCELLED by 1000
    return SlurmJob(
        id=int(fields["JobIDRaw"]),
        state="PREEMPTED" if state == "REQUEUED" else state,  # that run is over; the next has a line of its own
        name=fields["JobName"],
        user=fields["User"],
        partition=fields["Partition"],
        node_count=int(fields["NNodes"] or 1),
        gpus=gpus,
        submitted=_moment(fields["Submit"]),
        eligible=_moment(fields["Eligible"]),
        started=_moment(fields["Start"]),
        ended=_moment(fields["End"]),
        limit_s=60.0 * int(limit) if limit.isdigit() else None,
    )


def _gpus(tres: str) -> int:
    """Accounts may name GPUs twice, all and by type: `gres/gpu=4,gres/gpu:a100=4`; or only by type."""
    parts = tres.split(",")
    return gpus_in(",".join(part for part in parts if not part.startswith("gres/gpu:")))[0] or gpus_in(tres)[0]


def _moment(text: str) -> float:
    return 0.0 if text in NEVER else datetime.fromisoformat(text).timestamp()
