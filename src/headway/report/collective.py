"""The report of `headway collective --report`: one page that works offline, light or dark as the reader's screen is.

Above, what each dimension does over time: the baseline, and below it the chosen plan on the same axis (the picture of
Themis, figure 5). Then how much of the bandwidth is in use over time, and speed-ups against baseline, ideal and limit.
"""

import html
from collections.abc import Sequence
from typing import Any

from headway.collectives.schedulers import Outcome
from headway.collectives.simulate.play import utilisation_over_time

# Of Okabe and Ito's palette, which colour-blind people can tell apart; one colour per idea on the whole page.
PHASES = {"rs": ("reduce-scatter", "#0072B2"), "ag": ("all-gather", "#E69F00"), "a2a": ("all-to-all", "#009E73")}
METHODS = {"baseline": "#999999", "themis-fifo": "#56B4E9", "themis-scf": "#0072B2", "best": "#D55E00"}
OTHER = "#CC79A7"
# Neighbouring chunks differ in shade, so that thin bars keep their colour.
SHADES = (1.0, 0.75)
IDEAL, LIMIT = "#F0E442", "#000000"
PS_PER_MS = 1e9
# Slices of time in the plot of utilisation: more cannot be seen on a screen.
SLICES = 240

STYLE = """
:root { color-scheme: light dark; --ink: #1b1f24; --paper: #ffffff; --soft: #5b6570; --line: #d8dee4; }
@media (prefers-color-scheme: dark) { :root { --ink: #e6edf3; --paper: #12161b; --soft: #9aa4af; --line: #30363d; } }
body { margin: 0 auto; padding: 24px; max-width: 1240px; color: var(--ink); background: var(--paper);
  font: 15px/1.5 system-ui, sans-serif; }
h1 { font-size: 22px; margin: 0 0 4px; } h2 { font-size: 17px; margin: 32px 0 4px; }
p { margin: 0 0 8px; color: var(--soft); }
.scroll { overflow-x: auto; } table { border-collapse: collapse; margin: 12px 0; font-variant-numeric: tabular-nums; }
th, td { padding: 4px 14px 4px 0; text-align: right; border-bottom: 1px solid var(--line); white-space: nowrap; }
th:first-child, td:first-child { text-align: left; } th { color: var(--soft); font-weight: 600; }
"""

# Plotly draws its own text and grid: give it the page's colours, now and when the reader switches.
SCRIPT = """
const dark = window.matchMedia('(prefers-color-scheme: dark)');
function paint() {
  const page = getComputedStyle(document.documentElement);
  const ink = page.getPropertyValue('--ink').trim(), line = page.getPropertyValue('--line').trim();
  for (const plot of document.querySelectorAll('.js-plotly-plot')) {
    const change = {'font.color': ink, 'paper_bgcolor': 'rgba(0,0,0,0)', 'plot_bgcolor': 'rgba(0,0,0,0)'};
    for (const axis of Object.keys(plot.layout).filter(key => /^[xy]axis/.test(key))) {
      change[axis + '.gridcolor'] = line; change[axis + '.zerolinecolor'] = line; change[axis + '.linecolor'] = line;
    }
    (plot.layout.annotations || []).forEach((_, i) => { change['annotations[' + i + '].font.color'] = ink; });
    Plotly.relayout(plot, change);
    plot.data.forEach((trace, i) => { if (trace.name === 'limit')
      Plotly.restyle(plot, {'marker.color': ink}, [i]); });
  }
}
paint(); dark.addEventListener('change', paint);
"""


def collective_report(rows: Sequence[Sequence[Outcome]], chosen: Outcome) -> str:
    """The whole page. `rows` holds one row of outcomes per topology, the first of each what the others are held
    against."""
    from plotly.offline import get_plotlyjs

    first = next((row for row in rows if any(outcome is chosen for outcome in row)), rows[0])[0]
    pair = (first, chosen)
    plots = [
        (
            "What each dimension sends",
            "Each bar is one chunk on one dimension; gaps are idle links.",
            _gantt(pair),
        ),
        ("Bandwidth in use", "The share of all bandwidth that is sending, over time.", _utilisation(pair)),
        ("Speed-up", f"Against {_name(first)}; no plan can pass the limit.", _speedups(rows)),
    ]
    title = f"{chosen.collective} of {chosen.size_bytes:,} bytes on {chosen.topology.name}"
    body = "".join(f"<h2>{heading}</h2><p>{text}</p>{_div(figure)}" for heading, text, figure in plots)
    return (
        f"<!doctype html><html lang='en'><head><meta charset='utf-8'><title>{html.escape(title)}</title>"
        "<meta name='viewport' content='width=device-width, initial-scale=1'>"
        f"<style>{STYLE}</style><script>{get_plotlyjs()}</script></head><body>"
        f"<h1>{html.escape(title)}</h1><p>{html.escape(_sentence(chosen))}</p>{_table(rows)}{body}"
        f"<script>{SCRIPT}</script></body></html>\n"
    )


def _name(outcome: Outcome) -> str:
    return outcome.scheduler if outcome.scheduler in ("baseline", "best") else f"{outcome.scheduler}-{outcome.intra}"


def _sentence(outcome: Outcome) -> str:
    reached = outcome.limit.limit_s / outcome.time_s
    return (
        f"{_name(outcome)}: {outcome.time_s * 1e3:.3f} ms with {len(outcome.plan.chunks)} chunks, "
        f"{reached:.1%} of the limit ({outcome.limit.limit_s * 1e3:.3f} ms), {outcome.utilisation:.1%} utilisation."
    )


def _table(rows: Sequence[Sequence[Outcome]]) -> str:
    cells = ["<tr><th>topology</th><th>scheduler</th><th>chunks</th><th>time ms</th><th>utilisation</th>"]
    cells.append("<th>of limit</th><th>speed-up</th></tr>")
    for row in rows:
        for outcome in row:
            values = (
                f"{html.escape(outcome.topology.name)}</td><td>{html.escape(_name(outcome))}",
                len(outcome.plan.chunks),
                f"{outcome.time_s * 1e3:.3f}",
                f"{outcome.utilisation:.1%}",
                f"{outcome.limit.limit_s / outcome.time_s:.1%}",
                f"{row[0].time_s / outcome.time_s:.2f}",
            )
            cells.append("<tr>" + "".join(f"<td>{value}</td>" for value in values) + "</tr>")
    return f"<div class='scroll'><table>{''.join(cells)}</table></div>"


def _gantt(pair: tuple[Outcome, Outcome]) -> Any:
    """One row per dimension, the first outcome above, the second below, on one axis of time."""
    import plotly.graph_objects as go
    from plotly.subplots import make_subplots

    titles = [f"{_name(outcome)}, {outcome.time_s * 1e3:.3f} ms" for outcome in pair]
    figure = make_subplots(rows=2, cols=1, shared_xaxes=True, subplot_titles=titles, vertical_spacing=0.14)
    shown: set[str] = set()
    for place, outcome in enumerate(pair, 1):
        for kind, bars in _bars(outcome).items():
            label, colour = PHASES[kind]
            trace = go.Bar(
                base=bars["base"],
                x=bars["span"],
                y=bars["row"],
                text=bars["text"],
                textposition="none",
                hovertemplate="%{text}<br>from %{base:.4f} ms for %{x:.4f} ms<extra></extra>",
                orientation="h",
                width=0.8,
                name=label,
                legendgroup=label,
                showlegend=label not in shown,
                marker={"color": colour, "opacity": bars["shade"], "line": {"width": 0}},
            )
            shown.add(label)
            figure.add_trace(trace, row=place, col=1)
    dims = len(pair[0].topology.dimensions)
    figure.update_layout(barmode="overlay", height=170 + 2 * (40 + 34 * dims))
    figure.update_yaxes(autorange="reversed", type="category")
    figure.update_xaxes(range=[0, 1.01e3 * max(outcome.time_s for outcome in pair)])
    figure.update_xaxes(title_text="ms", row=2, col=1)
    return figure


def _bars(outcome: Outcome) -> dict[str, dict[str, list[Any]]]:
    """When each link was sending, by kind of phase."""
    line, plan = outcome.timeline, outcome.plan
    kinds = ["a2a"] * len(plan.chunks[0].a2a) or ["rs"] * len(plan.chunks[0].rs) + ["ag"] * len(plan.chunks[0].ag)
    stops = (line.finish_ps - line.latency_ps) / PS_PER_MS
    spans = line.occupy_ps / PS_PER_MS
    found: dict[str, dict[str, list[Any]]] = {}
    for place, kind in enumerate(kinds):
        bars = found.setdefault(kind, {"base": [], "span": [], "row": [], "text": [], "shade": []})
        for chunk in range(len(plan.chunks)):
            dim = int(line.dims[chunk, place])
            bars["base"].append(round(float(stops[chunk, place] - spans[chunk, place]), 6))
            bars["span"].append(round(float(spans[chunk, place]), 6))
            bars["row"].append(f"dim {dim + 1}")
            bars["text"].append(f"chunk {chunk}, {PHASES[kind][0]}, {line.sent_bytes[chunk, place]:,} bytes")
    for bars in found.values():
        sequence = sorted(range(len(bars["row"])), key=lambda i: (bars["row"][i], bars["base"][i]))
        for column in ("base", "span", "row", "text"):
            bars[column] = [bars[column][i] for i in sequence]
        bars["shade"] = [SHADES[i % len(SHADES)] for i in range(len(sequence))]
    return found


def _utilisation(pair: tuple[Outcome, Outcome]) -> Any:
    """All bandwidth in use, weighted by dimension, for both outcomes."""
    import plotly.graph_objects as go

    figure = go.Figure()
    for outcome in pair:
        colour = METHODS.get(_name(outcome), OTHER)
        used = utilisation_over_time(outcome.timeline, outcome.topology, SLICES)
        weights = outcome.topology.bandwidths_gbps
        share = sum(weight * row for weight, row in zip(weights, used, strict=True)) / sum(weights)
        times = [(i + 0.5) * outcome.time_s * 1e3 / SLICES for i in range(SLICES)]
        figure.add_trace(
            go.Scatter(x=times, y=100 * share, name=_name(outcome), mode="lines", line={"color": colour, "shape": "hv"})
        )
    figure.update_layout(height=320)
    figure.update_xaxes(title_text="ms")
    figure.update_yaxes(title_text="% of bandwidth", range=[0, 104])
    return figure


def _speedups(rows: Sequence[Sequence[Outcome]]) -> Any:
    """Bars per topology: every scheduler, the limit and the ideal, against the first scheduler."""
    import plotly.graph_objects as go

    names = [row[0].topology.name for row in rows]
    figure = go.Figure()
    for place in range(len(rows[0])):
        name, values = _name(rows[0][place]), [row[0].time_s / row[place].time_s for row in rows]
        figure.add_trace(go.Bar(x=names, y=values, name=name, marker_color=METHODS.get(name, OTHER)))
    for label, colour in (("limit", LIMIT), ("ideal", IDEAL)):
        bounds = [row[0].limit.limit_s if label == "limit" else row[0].limit.ideal_s for row in rows]
        values = [row[0].time_s / bound for row, bound in zip(rows, bounds, strict=True)]
        figure.add_trace(go.Bar(x=names, y=values, name=label, marker_color=colour))
    figure.update_layout(height=380, bargap=0.3)
    figure.update_yaxes(title_text="speed-up")
    return figure


def _div(figure: Any) -> str:
    figure.update_layout(
        template="plotly_white",
        margin={"l": 70, "r": 20, "t": 50, "b": 50},
        legend={"orientation": "h", "y": 1.02, "yanchor": "bottom", "x": 1, "xanchor": "right"},
    )
    options = {"displayModeBar": False, "responsive": True}
    return str(figure.to_html(include_plotlyjs=False, full_html=False, config=options))
