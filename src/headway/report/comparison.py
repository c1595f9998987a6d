"""The report of `compare --report`: the summary table, each policy against the first, then the figures."""

from collections.abc import Callable, Sequence
from typing import Any

from headway.io.units import counted
from headway.report import distributions, running
from headway.report.data import PolicyView, Study
from headway.report.figure import Figure
from headway.report.page import escaped, footer, page, table
from headway.report.seeds import Interval, figure, figure_ratio, label
from headway.report.times import UNITS, duration

MEAN_JCT = ("jct_s", "mean")


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %"


# Figures of a summary by the heading of their column: where they are, and how they are written.
FIGURES: dict[str, tuple[tuple[str, ...], Callable[[float], str]]] = {
    "median": (("jct_s", "median"), duration),
    "p95": (("jct_s", "p95"), duration),
    "p99": (("jct_s", "p99"), duration),
    "mean wait": (("queue_s", "mean"), duration),
    "makespan": (("makespan_s",), duration),
    "GPUs": (("gpu_utilisation",), _percent),
    "useful": (("goodput",), _percent),
    "preempted": (("preemptions",), "{:,.0f}".format),
}
HEAD = ("policy", "mean JCT", "against first", *FIGURES)
HEAD_DRAWN = ("GPU&#8209;h lost", "stranded", "scattered", "unfair")
# The times are also held against the first policy's, where seeds tell how sure that is.
AGAINST = {"mean JCT": MEAN_JCT} | {name: path for name, (path, show) in FIGURES.items() if show is duration}


def report(study: Study) -> str:
    """The whole page as HTML."""
    seeds = len(study.views[0].summaries)
    first = study.views[0].summaries[0]
    title = f"{study.trace}: {counted(first['jobs'], 'job')} on {first['cluster']} ({counted(study.gpus, 'GPU')})"
    over = f"{seeds} seeds; intervals are 95 % confidence; plots over time show the first seed. " if seeds > 1 else ""
    intro = (
        f"<p>{_where(study)} {over}Times: JCT is from submission to end.</p>"
        f"{summary_table(study)}{against_table(study) if seeds > 1 else ''}"
        "<p>GPUs: held by jobs. Useful: at work, not saving or resuming. "
        "Stranded: free GPUs though a job of no more GPUs waits. Scattered: free on nodes partly in use. "
        "Unfair: jobs worse off than alone on an equal share of the cluster.</p>"
    )
    intro += "".join(queues_table(view.policy, view.summaries[0]) for view in study.views)
    if study.notes:
        intro += f"<ul>{''.join(f'<li>{escaped(note)}</li>' for note in study.notes)}</ul>"
    every = [summary for view in study.views for summary in view.summaries]
    settings = [one["settings"] | {name: one[name] for name in ("trace_sha256", "version")} for one in every]
    return page(title, intro, [view.policy for view in study.views], figures(study), footer(settings, study.command))


def _where(study: Study) -> str:
    """The placement that all have in common, or what each stack is."""
    first = [view.summaries[0] for view in study.views]
    if "stack" not in first[0]:
        return f"{escaped(first[0]['placement'])} placement."
    return " ".join(f"<b>{escaped(one['stack'])}</b>: {escaped(', '.join(_parts(one)))}." for one in first)


def _kind(study: Study) -> str:
    return "stack" if "stack" in study.views[0].summaries[0] else "policy"


def _parts(summary: dict[str, Any]) -> list[str]:
    """What a stack is made of, with reports and turns where it says something of them."""
    parts = [str(summary[part]) for part in ("policy", "placement", "network", "collective")]
    for name, usual in (("progress_reports", 0.0), ("progress_error", 1.0), ("min_runtime", "auto")):
        if summary["settings"][name] != usual:
            parts.append(f"{name.replace('_', ' ')} {summary['settings'][name]}")
    return parts


def figures(study: Study) -> list[Figure]:
    """All figures that this study allows."""
    drawn = [
        distributions.jct_cdf(study),
        distributions.wait_cdf(study),
        running.receipts(study),
        distributions.jct_by_size(study),
        distributions.jct_by_duration(study),
        *running.over_time(study),
        distributions.fairness_cdf(study),
        running.preemptions(study),
        distributions.slow_down_by_group(study),
        *(running.gantt(study, view) for view in study.views),
    ]
    return [figure for figure in drawn if figure is not None]


def summary_table(study: Study) -> str:
    """Every policy, one row; the best mean JCT is marked."""
    best = min(figure(view.summaries, *MEAN_JCT).mean for view in study.views)
    head = [_kind(study), *HEAD[1:], *HEAD_DRAWN]
    first = study.views[0].summaries
    rows = [_cells(view.summaries, first, best) + _drawn(view) for view in study.views]
    if len(first) > 1:  # then it is in a table of its own, with more figures
        for row in (head, *rows):
            del row[HEAD.index("against first")]
    return table(head, rows)


# Figures of a queue by the heading of their column, and how they are written.
QUEUE_FIGURES: dict[str, tuple[str, Callable[[Any], str]]] = {
    "share asked": ("share", _percent),
    "guaranteed": ("guaranteed_gpus", lambda gpus: counted(gpus, "GPU")),
    "used": ("gpus_used", "{:,.1f} GPUs".format),
    "used GPU&#8209;h": ("used_gpu_h", "{:,.0f}".format),
    "borrowed GPU&#8209;h": ("borrowed_gpu_h", "{:,.0f}".format),
    "left GPU&#8209;h": ("left_gpu_h", "{:,.0f}".format),
    "jobs": ("jobs", "{:,}".format),
    "mean JCT": ("jct_s", duration),
    "mean wait": ("queue_s", duration),
    "for quota": ("quota_s", duration),
    "fairness": ("fairness", "{:,.2f}".format),
    "unfair": ("unfair", _percent),
    "preempted": ("preemptions", "{:,}".format),
}


def queues_table(policy: str, summary: dict[str, Any]) -> str:
    """Who had what under a policy, queue by queue; nothing for a run without queues."""
    if not summary.get("queues"):
        return ""
    rows = [
        [
            escaped(one["queue"]),
            *(show(one[name]) if one[name] is not None else "" for name, show in QUEUE_FIGURES.values()),
        ]
        for one in summary["queues"]
    ]
    told = (
        "<p>Used: GPUs on average. Borrowed: beyond the guarantee. Left: of the guarantee, and not used. Fairness: JCT over the time on an "
        "equal part of the queue's own share. Unfair: jobs for which that is above 1.</p>"
    )
    return f"<p>Queues under {escaped(policy)}:</p>" + table(("queue", *QUEUE_FIGURES), rows) + told


def against_table(study: Study) -> str:
    """Every policy against the first, seed by seed, with confidence intervals."""
    first = study.views[0].summaries
    rows = [
        [escaped(view.policy), *(times(figure_ratio(view.summaries, first, *path)) for path in AGAINST.values())]
        for view in study.views
    ]
    head = f"<p>Against {escaped(study.views[0].policy)}, seed by seed:</p>"
    return head + table((_kind(study), *AGAINST), rows)


def rows_of(groups: Sequence[Sequence[dict[str, Any]]]) -> str:
    """The table from summaries alone (by policy, then seed), for notebooks."""
    best = min(figure(summaries, *MEAN_JCT).mean for summaries in groups)
    return table(HEAD, [_cells(summaries, groups[0], best) for summaries in groups])


def _cells(summaries: Sequence[dict[str, Any]], first: Sequence[dict[str, Any]], best: float) -> list[str]:
    mean, against = figure(summaries, *MEAN_JCT), figure_ratio(summaries, first, *MEAN_JCT)
    shown = duration(mean.mean) + plus_minus(mean)
    return [
        escaped(label(summaries[0])),
        f"<span class='best'>{shown}</span>" if mean.mean == best else shown,
        times(against),
        *(show(figure(summaries, *path).mean) for path, show in FIGURES.values()),
    ]


def _drawn(view: PolicyView) -> list[str]:
    over = view.over_time
    return [
        f"{view.lost_gpu_h:,.1f}",
        _percent(over.stranded.mean()),
        _percent(over.scattered.mean()),
        # Rounding in the ratio must not count a job that got exactly its due.
        _percent((view.jobs.fairness > 1 + 1e-9).mean()),
    ]


def times(ratio: Interval | None) -> str:
    """A ratio with half of its interval; nothing where it has none."""
    if ratio is None:
        return ""
    return f"{ratio.mean:.2f}x" + (f" <small>± {ratio.half:.2f}</small>" if ratio.half is not None else "")


def plus_minus(interval: Interval) -> str:
    """Half of the interval in the unit of its mean."""
    if interval.half is None:
        return ""
    scale, unit = next((scale, unit) for limit, scale, unit in UNITS if interval.mean < limit)
    return f" <small>± {interval.half / scale:.{0 if unit == 's' else 1}f}</small>"
