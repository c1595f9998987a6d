"""The tables of jobs and nodes that `queue`, `top`, `nodes` and the demo print, and how they write times, places and progress."""

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, Literal

from rich.table import Table
from rich.text import Text

from headway.io.units import counted
from headway.job_state import FINAL_STATES, JobState
from headway.reasons import short_text

if TYPE_CHECKING:
    from headway.client.job import JobView

# In the order in which jobs are listed.
STYLES = {
    JobState.RUNNING.name: "green",
    JobState.STARTING.name: "green",
    JobState.STOPPING.name: "yellow",
    JobState.PENDING.name: "yellow",
    JobState.HELD.name: "magenta",
    JobState.COMPLETED.name: "cyan",
    JobState.FAILED.name: "red",
    JobState.TIMEOUT.name: "red",
    JobState.CANCELLED.name: "dim",
}
ON_GPUS = (JobState.RUNNING.name, JobState.STARTING.name, JobState.STOPPING.name)
WAITING = (JobState.PENDING.name, JobState.HELD.name)
ACTIVE = (*ON_GPUS, *WAITING)

# The two units of a time, each with its seconds, longest first.
SPANS = ((86_400, "d", 3600, "h"), (3600, "h", 60, "m"), (60, "m", 1, "s"))


def span(value_s: float | None) -> str:
    """A time in a few characters: 12.3s, 4m05s, 3h20m, 2d03h."""
    if value_s is None:
        return ""
    if value_s < 60:
        return f"{max(0.0, value_s):.1f}s"
    whole = round(value_s)
    large_s, large, small_s, small = next(units for units in SPANS if whole >= units[0])
    return f"{whole // large_s}{large}{whole % large_s // small_s:02d}{small}"


def times(count: int) -> str:
    """once, twice, 3 times."""
    return {1: "once", 2: "twice"}.get(count, f"{count} times")


def moment(at: float | None) -> str:
    """A time of day, with the date if it is another day."""
    if at is None:
        return ""
    then = datetime.fromtimestamp(at)
    today = then.date() == datetime.now().date()
    return then.strftime("%H:%M:%S" if today else "%Y-%m-%d %H:%M")


def jobs_table(jobs: Iterable["JobView"], now: float) -> Table:
    """One line per job: what it has received, where it runs or why it waits."""
    table = Table(box=None, pad_edge=False, header_style="bold", expand=True, padding=(0, 1, 0, 0))
    for name in ("JOB", "NAME", "USER", "STATE", "GPUS", "LEVEL", "SERVICE", "AGE", "TRY"):
        side: Literal["left", "right"] = "left" if name in {"NAME", "USER", "STATE"} else "right"
        table.add_column(name, justify=side, min_width=9 if name == "STATE" else None, no_wrap=True)
    table.add_column("WHERE OR WHY", ratio=1, no_wrap=True, overflow="ellipsis")
    for job in jobs:
        style = STYLES.get(job.state, "")
        table.add_row(
            str(job.job_id),
            Text(short(job.name, 16)),
            Text(short(job.user, 8)),
            Text(job.state, style=style),
            str(job.gpus),
            str(job.level),
            span(job.service_gpu_s),
            span((now if job.ended_at is None else job.ended_at) - job.submitted_at),
            str(job.attempt),
            Text(where_or_why(job), style="" if job.state in ACTIVE else "dim"),
        )
    return table


def short(text: str, width: int) -> str:
    """At most `width` characters; control characters are replaced, never sent to the terminal."""
    safe = "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in text)
    return safe if len(safe) <= width else safe[: width - 1] + "…"


def script(text: str, lines: int = 20) -> str:
    """A command of one line, or the first lines of a script as they are."""
    every = text.rstrip().expandtabs().split("\n")
    shown = [short(line, 500) for line in every[:lines]]
    return "\n".join(shown + ([f"… ({len(every) - lines} more lines; --json has all)"] if len(every) > lines else []))


def where_or_why(job: "JobView") -> str:
    """Where it runs and how far it is, or why it does not run."""
    if job.state in FINAL_STATES:
        return short(job.message, 60) or ("" if job.exit_code is None else f"exit code {job.exit_code}")
    if job.state in ON_GPUS[:2]:
        notice = f"until {moment(job.notice_until)} (notice)" if job.notice_until is not None else ""
        return "  ".join(part for part in (nodes_text(job.nodes), notice, progress(job)) if part)
    if job.state == JobState.STOPPING.name:
        return f"stopping on {nodes_text(job.nodes)}"  # it saves its state, or its epilog runs
    return f"{job.reason}: {text}" if (text := short_text(job.reason)) else job.reason


def nodes_text(nodes: Sequence[str]) -> str:
    """The nodes of a job, each one once."""
    names = list(dict.fromkeys(nodes))
    return ",".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")


def progress(job: "JobView") -> str:
    """What the job reported: a bar, and the loss."""
    reported = job.progress
    if not reported or reported.get("step") is None:
        return ""
    step, total, loss = reported["step"], reported.get("total"), reported.get("loss")
    text = f"step {step}" if not total else f"{bar(step / total)} {step}/{total}"
    return text if loss is None else f"{text} loss {loss:.3g}"


def bar(share: float, width: int = 10) -> str:
    """A bar in plain characters."""
    filled = round(max(0.0, min(1.0, share)) * width)
    return "━" * filled + "╌" * (width - filled)


def header(status: dict[str, Any], nodes: Sequence[dict[str, Any]]) -> Text:
    """One line about the whole cluster: GPUs in use, jobs by state, the policy; and a second one if something is wrong."""
    counts = status["counts"]
    total, free = sum(status["cluster"]["gpus"]), sum(int(node["free"]) for node in nodes)
    running, ended = (sum(counts.get(state, 0) for state in states) for states in (ON_GPUS[:2], FINAL_STATES))
    words = [
        f"{total - free} of {counted(total, 'GPU')} in use",
        f"{running:,} running",
        f"{counts.get('PENDING', 0):,} waiting",
    ]
    words += [f"{counts[state]:,} {state.lower()}" for state in ("STOPPING", "HELD") if counts.get(state)]
    words += [f"{ended:,} ended"] if ended else []
    line = Text(f"{status['policy']} on {status['cluster']['name']}: ", style="bold")
    line.append(", ".join(words), style="not bold")
    if status.get("trouble"):
        line.append(f"\n{short(status['trouble'].strip().splitlines()[-1], 300)}", style="red")
    return line


def in_order(jobs: Iterable["JobView"]) -> list["JobView"]:
    """Running jobs first, then those that wait, by number."""
    rank = {state: i for i, state in enumerate(STYLES)}
    return sorted(jobs, key=lambda job: (rank.get(job.state, 99), job.job_id))
