"""The details of one job: what `show`, `explain` and `submit --dry-run` print."""

from typing import TYPE_CHECKING, Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from headway.cli.tables.jobs import STYLES, WAITING, bar, moment, nodes_text, progress, script, short, span, times
from headway.io.units import counted
from headway.reasons import HOLDS, receipt_text, short_text

if TYPE_CHECKING:
    from headway.client.job import JobView


def job_table(job: "JobView") -> Table:
    """Everything about one job, one fact per line; what is not known is left out."""
    table = Table(box=None, show_header=False, pad_edge=False)
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    code = "" if job.exit_code is None else f" (exit code {job.exit_code})"
    rows: dict[str, str | Text] = {
        "job": f"{job.job_id}" + (f", {job.array_index} of array {job.array_id}" if job.array_id else ""),
        "name": short(job.name, 200),
        "user": short(job.user, 60),
        "queue": short(job.queue, 200),
        "state": Text(f"{job.state}{code}", style=STYLES.get(job.state, "")),
        "reason": f"{job.reason}: {short_text(job.reason)}" if job.reason and job.state in WAITING else "",
        "message": short(job.message, 500),
        "command": script(job.command),
        "GPUs": f"{job.gpus}" + (f" on {nodes_text(job.nodes)}" if job.nodes else ""),
        "notice": _notice(job),
        "slice": _slice(job.slice),
        "certificate": _certificate(job.slice),
        "plan": _plan(job.slice),
        "attempt": f"{job.attempt}" + (f", preempted {times(job.preemptions)}" if job.preemptions else ""),
        "service": f"{span(job.service_gpu_s)} of GPU time, queue level {job.level}",
        "progress": progress(job),
        "submitted": moment(job.submitted_at),
        "started": moment(job.started_at),
        "ended": moment(job.ended_at),
        "done after": "" if job.ended_at is None else span(job.ended_at - job.submitted_at),
    }
    for name, value in rows.items():
        if value:
            table.add_row(name, value if isinstance(value, Text) else Text(value))
    return table


def _notice(job: "JobView") -> str:
    """Return when the job's borrowed GPUs are taken back, and for which queue."""
    if job.notice_until is None:
        return ""
    whom = f" for queue {short(job.notice_for, 60)}" if job.notice_for else ""
    return f"its GPUs are taken back at {moment(job.notice_until)}{whom}, unless the notice is withdrawn"


def _slice(held: dict[str, Any] | None) -> str:
    """The links that a job has alone, leaf by leaf."""
    if held is None:
        return ""
    if not held.get("isolated", True):
        return "none: it shares links with other jobs"
    if not held["links"]:
        return "below one leaf switch: no links needed"
    by_leaf: dict[str, list[str]] = {}
    for leaf, spine in held["links"]:
        by_leaf.setdefault(leaf, []).append(spine)
    routing = held["routing"]
    rule = f"; rank r goes by link r mod {routing['modulus']}" if "modulus" in routing else ""
    return "; ".join(f"{leaf} to {', '.join(spines)}" for leaf, spines in by_leaf.items()) + rule


def _certificate(held: dict[str, Any] | None) -> str:
    if held is None or held["certificate"] is None:
        return ""
    by = f", signed by {held['signed_by']}" if held["signed_by"] else ", not signed"
    return f"{held['certificate']['digest'][:23]}{by}; clean: {', '.join(held['patterns'])} (all of it: --json)"


def _plan(held: dict[str, Any] | None) -> str:
    if held is None or held["plan"] is None:
        return ""
    chunks, lists = held["plan"]["chunks"], held["plan"]["lists"]
    what = f"{counted(len(chunks), 'chunk')} over {counted(len(lists), 'dimension')}"
    return f"{what}, in HEADWAY_COLLECTIVE_PLAN of the job (all of it: --json)"


def explanation(answer: dict[str, Any]) -> RenderableType:
    """Reason, numbers, jobs ahead, what would change it, and the receipt of the wait."""
    reason = answer["reason"]
    title = Text(f"job {answer['job_id']} is {answer['state']}", style="bold")
    if reason:
        title.append(f": {reason}", style=STYLES.get(answer["state"], ""))
    parts: list[RenderableType] = [title]
    if answer["message"]:
        parts.append(Text(f"  {short(answer['message'], 500)}"))
    numbers = answer["numbers"]
    if reason and numbers:
        parts.append(Text(f"  {_numbers(numbers)}", style="dim"))
    parts += _reservation(answer.get("reservation"), answer["job_id"])
    if answer["ahead"]:
        count = int(numbers.get("jobs_ahead", len(answer["ahead"])))
        more = count - len(answer["ahead"])
        named = ", ".join(map(str, answer["ahead"])) + (f" and {more:,} more" if more > 0 else "")
        parts += [Text("\nahead of it", style="bold"), Text(f"  {counted(count, 'job')}: {named}")]
    if answer["would_change"]:
        parts.append(Text("\nwhat would change it", style="bold"))
        parts += [Text(f"  - {short(line, 200)}") for line in answer["would_change"]]
    parts += _receipt(answer["wait_us"], answer["receipt_us"])
    return Group(*parts)


def _reservation(reservation: dict[str, Any] | None, job_id: int) -> list[RenderableType]:
    """Which GPUs are kept, by when, and who holds GPUs of those nodes until when."""
    if not reservation:
        return []
    whose = (
        "it"
        if reservation["job_id"] == job_id
        else f"job {reservation['job_id']}"
        if reservation["job_id"]
        else "another job"
    )
    by = (
        "no bound"
        if reservation["by"] is None
        else f"by {moment(reservation['by'])} at the latest, in {span(reservation['in_s'])}"
    )
    where = ", ".join(f"{counted(gpus, 'GPU')} on {node}" for node, gpus in list(reservation["nodes"].items())[:8])
    lines: list[RenderableType] = [Text(f"\nkept for {whose}", style="bold"), Text(f"  {short(where, 300)}: {by}")]
    if reservation["holders"]:
        table = Table(box=None, show_header=False, pad_edge=False)
        for holder in reservation["holders"]:
            until = "" if holder["until"] is None else f"until {moment(holder['until'])}"
            table.add_row(f"  job {holder['job_id']}", counted(holder["gpus"], "GPU"), until, HOLDS[holder["why"]])
        lines.append(table)
    return lines


def _numbers(numbers: dict[str, Any]) -> str:
    """The numbers behind the reason, in one line."""
    words = [
        f"asks for {numbers['gpus_asked']:g} of {counted(int(numbers['gpus_total']), 'GPU')}",
        f"{numbers['gpus_free']:g} free",
        f"at most {numbers['most_free_on_a_node']:g} on one node",
        f"queue level {numbers['queue_level']:g}",
        f"{span(numbers['service_gpu_s'])} of GPU time so far",
    ]
    if numbers.get("preemptions"):
        words.append(f"preempted {times(int(numbers['preemptions']))}")
    return ", ".join(words)


def _receipt(wait_us: int, receipt_us: dict[str, int]) -> list[RenderableType]:
    """What the job waited for: every cause with its share, and the sum."""
    if not wait_us:
        return []
    table = Table(box=None, show_header=False, pad_edge=False)
    for justify in ("left", "right", "left"):
        table.add_column(justify=justify, no_wrap=True)
    table.add_column()  # the words alone wrap on a narrow terminal: numbers are shown whole
    for reason, spent_us in sorted(receipt_us.items(), key=lambda item: -item[1]):
        share = Text(bar(spent_us / wait_us, 20), style="yellow")
        words = receipt_text(reason)
        table.add_row(f"  {reason}", f"{spent_us / 1e6:,.3f} s", share, Text(words, style="dim"))
    table.add_row("  waited", f"{wait_us / 1e6:,.3f} s", "", Text("the sum, exactly", style="dim"))
    return [Text("\nwhere its wait went", style="bold"), table]


def dry_run_lines(answer: dict[str, Any]) -> list[str]:
    """Where and when a job would start."""
    lines = [f"{counted(answer['gpus'], 'GPU')}: {short(answer['message'], 500)}"]
    if answer.get("preempts"):
        named, one = ", ".join(map(str, answer["preempts"])), len(answer["preempts"]) == 1
        whom = f"job {named}, which saves its" if one else f"jobs {named}, which save their"
        lines.append(f"it would take GPUs from {whom} state and {'continues' if one else 'continue'} later")
    return [*lines, "nothing was submitted"]
