"""The report of `headway collective --report`: one page that works offline, light or dark as the reader's screen is.

Above, what each dimension does over time: what the chosen plan is held against, and below it that plan on the same axis (the
picture of Themis, figure 5). Then how much of the bandwidth is in use over time, and speed-ups against baseline, ideal and limit.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from headway.collectives.schedulers import SchedulerOutcome
from headway.collectives.simulate.play import utilisation_over_time
from headway.collectives.summary import rival
from headway.report.figure import OWN_LEGEND, Figure, axis
from headway.report.page import escaped, page, table

# Of Okabe and Ito's palette, which colour-blind people can tell apart; one colour per idea on the whole page.
PHASES = {"rs": ("reduce-scatter", "#0072B2"), "ag": ("all-gather", "#E69F00"), "a2a": ("all-to-all", "#009E73")}
METHODS = {"baseline": "#999999", "themis-fifo": "#56B4E9", "themis-scf": "#0072B2", "best": "#D55E00"}
# The papers' rows, with a fixed number of chunks, have the colour of their method, hatched.
HATCHED = {"pattern": {"shape": "/"}}
OTHER = "#CC79A7"
# Neighbouring chunks differ in shade, so that thin bars keep their colour.
SHADES = (1.0, 0.75)
IDEAL, LIMIT = "#F0E442", "#000000"
# Around the bars of the limit: black on a dark page is not seen.
EDGE = {"color": "#8C8C8C", "width": 1}
PS_PER_MS = 1e9
# Slices of time in the plot of utilisation: more cannot be seen on a screen.
SLICES = 240
HEAD = (
    "topology",
    "scheduler",
    "chunks",
    "time ms",
    "utilisation",
    "of limit",
    "of latency bound",
    "speed-up",
    "against",
)


def collective_report(rows: Sequence[Sequence[SchedulerOutcome]], chosen: SchedulerOutcome) -> str:
    """The whole page. `rows` holds one row of outcomes per topology; each is held against the first of its row that chose
    its number of chunks as it did."""
    own = next((row for row in rows if any(outcome is chosen for outcome in row)), rows[0])
    title = f"{chosen.collective} of {chosen.size_bytes:,} bytes on {chosen.topology.name}"
    cells = [_cells(outcome, rival(outcome, row)) for row in rows for outcome in row]
    pair = rival(chosen, own), chosen
    figures = [_gantt(pair), _utilisation(pair), _speedups(rows, own[0].method)]
    return page(title, f"<p>{escaped(_sentence(chosen))}</p>{table(HEAD, cells)}", (), figures)


def _sentence(outcome: SchedulerOutcome) -> str:
    reached = outcome.limit.limit_s / outcome.time_s
    return (
        f"{outcome.method}: {outcome.time_s * 1e3:.3f} ms with {len(outcome.plan.chunks)} chunks, "
        f"{reached:.1%} of the limit ({outcome.limit.limit_s * 1e3:.3f} ms), {outcome.utilisation:.1%} utilisation; "
        f"with latencies no plan takes less than {outcome.bound_s * 1e3:.3f} ms. Methods choose their number of chunks; "
        "@64 fixes it at 64, as the papers do."
    )


def _cells(outcome: SchedulerOutcome, other: SchedulerOutcome) -> list[str]:
    """One row of the table; the speed-up is against `other`."""
    return [
        escaped(outcome.topology.name),
        escaped(outcome.method),
        str(len(outcome.plan.chunks)),
        f"{outcome.time_s * 1e3:.3f}",
        f"{outcome.utilisation:.1%}",
        f"{outcome.limit.limit_s / outcome.time_s:.1%}",
        f"{outcome.bound_s / outcome.time_s:.1%}",
        f"{other.time_s / outcome.time_s:.2f}",
        escaped(other.method),
    ]


def _gantt(pair: tuple[SchedulerOutcome, SchedulerOutcome]) -> Figure:
    """One row per dimension, the first outcome above, the second below, on one axis of time."""
    traces: list[dict[str, Any]] = []
    layout: dict[str, Any] = {"barmode": "overlay", "annotations": [], **OWN_LEGEND}
    for on, bottom, top, outcome in (("", 0.57, 1.0, pair[0]), ("2", 0.0, 0.43, pair[1])):
        traces += _bars(outcome, on)
        layout[f"yaxis{on}"] = {"domain": [bottom, top], "autorange": "reversed", "type": "category"}
        title = {"text": f"{outcome.method}, {outcome.time_s * 1e3:.3f} ms", "font": {"size": 16}, "showarrow": False}
        at = {"xref": "paper", "x": 0.5, "xanchor": "center", "yref": "paper", "y": top, "yanchor": "bottom"}
        layout["annotations"].append(title | at)
    range_ms = [0, 1.01e3 * max(outcome.time_s for outcome in pair)]
    layout["xaxis"] = {"range": range_ms, "showticklabels": False, "matches": "x2"}
    layout["xaxis2"] = axis("ms", range=range_ms, anchor="y2")
    note = "Each bar is one chunk on one dimension (one step of it, with several in flight); gaps are idle links."
    height = 170 + 2 * (40 + 34 * len(pair[0].topology.dimensions))
    return Figure("gantt", "What each dimension sends", note, traces, layout, height, wide=True)


def _bars(outcome: SchedulerOutcome, on: str) -> list[dict[str, Any]]:
    """When each link was sending, by kind of phase; `on` ends the names of the axes."""
    timeline, plan = outcome.timeline, outcome.plan
    kinds = ["a2a"] * len(plan.chunks[0].a2a) or ["rs"] * len(plan.chunks[0].rs) + ["ag"] * len(plan.chunks[0].ag)
    sending = timeline.sending
    spans = sending.occupy_ps / PS_PER_MS
    starts = sending.until_ps / PS_PER_MS - spans
    chunks, places = np.divmod(sending.op, len(kinds))
    traces = []
    for kind in dict.fromkeys(kinds):
        label, colour = PHASES[kind]
        sent = [
            (
                f"dim {timeline.dims[chunk, place] + 1}",
                round(float(start), 6),
                round(float(span), 6),
                f"chunk {chunk}, {label}, {timeline.sent_bytes[chunk, place]:,} bytes",
            )
            for chunk, place, start, span in zip(chunks.tolist(), places.tolist(), starts, spans, strict=True)
            if kinds[place] == kind
        ]
        rows, base, lasts, text = zip(*sorted(sent, key=lambda bar: bar[:2]), strict=True)
        shade = [SHADES[i % len(SHADES)] for i in range(len(sent))]
        trace = {
            "type": "bar", "orientation": "h", "width": 0.8, "base": base, "x": lasts, "y": rows, "text": text,
            "textposition": "none", "hovertemplate": "%{text}<br>from %{base:.4f} ms for %{x:.4f} ms<extra></extra>",
            "name": label, "legendgroup": label, "showlegend": not on, "xaxis": f"x{on}", "yaxis": f"y{on}",
            "marker": {"color": colour, "opacity": shade, "line": {"width": 0}},
        }  # fmt: skip
        traces.append(trace)
    return traces


def _utilisation(pair: tuple[SchedulerOutcome, SchedulerOutcome]) -> Figure:
    """All bandwidth in use, weighted by dimension, for both outcomes."""
    traces = []
    for outcome in pair:
        name, weights = outcome.method, outcome.topology.bandwidths_gbps
        used = utilisation_over_time(outcome.timeline, outcome.topology, SLICES)
        share: Any = sum(weight * row for weight, row in zip(weights, used, strict=True)) / sum(weights)
        times = [(i + 0.5) * outcome.time_s * 1e3 / SLICES for i in range(SLICES)]
        line = {"color": METHODS.get(name.partition("@")[0], OTHER), "shape": "hv"}
        curve = {"type": "scatter", "mode": "lines", "x": times, "y": (100 * share).tolist()}
        traces.append(curve | {"name": name, "line": line})
    layout = {"xaxis": axis("ms"), "yaxis": axis("% of bandwidth", range=[0, 104]), **OWN_LEGEND}
    note = "The share of all bandwidth that is sending, over time."
    return Figure("utilisation", "Bandwidth in use", note, traces, layout, 320, wide=True)


def _speedups(rows: Sequence[Sequence[SchedulerOutcome]], first: str) -> Figure:
    """Bars per topology: every scheduler, the limit and the ideal, against the first scheduler."""
    takes_s = [(outcome.method, [row[place].time_s for row in rows]) for place, outcome in enumerate(rows[0])]
    takes_s += [("limit", [row[0].limit.limit_s for row in rows]), ("ideal", [row[0].limit.ideal_s for row in rows])]
    colours = {**METHODS, "limit": LIMIT, "ideal": IDEAL}
    names = [row[0].topology.name for row in rows]
    traces = []
    for name, times_s in takes_s:
        values = [row[0].time_s / time_s for row, time_s in zip(rows, times_s, strict=True)]
        method, fixed, _ = name.partition("@")
        marker: dict[str, Any] = {"color": colours.get(method, OTHER)} | ({"line": EDGE} if name == "limit" else {})
        marker |= HATCHED if fixed else {}
        traces.append({"type": "bar", "x": names, "y": values, "name": name, "marker": marker})
    layout = {"bargap": 0.3, "yaxis": axis("speed-up"), **OWN_LEGEND}
    note = f"Against {first}, also where the number of chunks is fixed; no plan can pass the limit."
    return Figure("speed-up", "Speed-up", note, traces, layout, 380, wide=True)
