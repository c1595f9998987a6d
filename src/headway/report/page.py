"""The shell of a report: one HTML file that works offline, light or dark as the reader's screen is, wide or narrow.

plotly.js is inlined. A figure is drawn when it comes near the screen, so that a page with many opens as quickly as one with few.
"""

import html
import json
from collections.abc import Mapping, Sequence
from importlib import resources
from typing import Any

from headway.report.figure import COLOURS, Figure, colour

# Values of one setting that a footer lists; longer lists than this have a line to themselves.
MOST_VALUES, LONG_VALUE = 12, 24
NAMES = {"trace_sha256": "trace SHA-256", "version": "Headway version"}

STYLE = """
:root { color-scheme: light dark; --ink: #1b1f24; --paper: #ffffff; --soft: #5b6570; --line: #d8dee4; --good: #1a7f37;
  --shadow: rgba(0,0,0,0.28); }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e6edf3; --paper: #12161b; --soft: #9aa4af; --line: #30363d; --good: #4ac26b;
  --shadow: rgba(255,255,255,0.3); } }
* { box-sizing: border-box; }
body { margin: 0 auto; padding: 24px; max-width: 1320px; color: var(--ink); background: var(--paper);
  font: 15px/1.5 system-ui, sans-serif; }
h1 { font-size: 22px; margin: 0 0 4px; overflow-wrap: anywhere; } h2 { font-size: 17px; margin: 0; }
p { margin: 0 0 6px; color: var(--soft); } ul { margin: 8px 0; padding-left: 20px; color: var(--soft); }
/* Shadows at the edges say that there is more: those of paper scroll along with the table and cover them at its ends. */
.scroll { overflow-x: auto; background: linear-gradient(to right, var(--paper) 50%, transparent) 0 0 / 40px 100% no-repeat local,
  linear-gradient(to left, var(--paper) 50%, transparent) 100% 0 / 40px 100% no-repeat local,
  linear-gradient(to right, var(--shadow), transparent) 0 0 / 14px 100% no-repeat scroll,
  linear-gradient(to left, var(--shadow), transparent) 100% 0 / 14px 100% no-repeat scroll; }
table { border-collapse: collapse; margin: 14px 0; font-size: 14px; font-variant-numeric: tabular-nums; width: 100%; }
th, td { padding: 4px 0 4px 10px; text-align: right; border-bottom: 1px solid var(--line); white-space: nowrap; }
th:first-child, td:first-child { text-align: left; padding-left: 0; white-space: normal; overflow-wrap: anywhere;
  min-width: 9em; }
th { color: var(--soft); font-weight: 600; white-space: normal; vertical-align: bottom; }
td small { color: var(--soft); } .best { color: var(--good); font-weight: 600; }
.legend { position: sticky; top: 0; z-index: 2; display: flex; flex-wrap: wrap; gap: 6px; padding: 8px 0;
  background: var(--paper); border-bottom: 1px solid var(--line); }
.legend button { font: inherit; color: inherit; background: none; border: 1px solid var(--line); border-radius: 14px;
  padding: 1px 10px; cursor: pointer; } .legend button[aria-pressed=false] { opacity: 0.4; text-decoration: line-through; }
.legend i { display: inline-block; width: 18px; height: 0; border-top: 3px solid; margin-right: 6px; vertical-align: middle; }
.figures { display: grid; grid-template-columns: 1fr 1fr; gap: 26px 24px; margin-top: 20px; }
.figures section { min-width: 0; align-self: end; } .wide { grid-column: 1 / -1; }
footer { margin-top: 32px; padding-top: 14px; border-top: 1px solid var(--line); font-size: 13px; }
pre { margin: 10px 0; padding: 8px 10px; border: 1px solid var(--line); border-radius: 6px; white-space: pre-wrap;
  overflow-wrap: anywhere; }
dl { display: grid; grid-template-columns: repeat(auto-fill, minmax(280px, 1fr)); gap: 2px 24px; margin: 0; }
dl div { display: flex; gap: 8px; } dt { color: var(--soft); flex: none; min-width: 9em; } dd { margin: 0; overflow-wrap: anywhere; }
@media (max-width: 1000px) { .figures { grid-template-columns: 1fr; }
  table { font-size: 11.5px; } th, td { padding-left: 5px; white-space: normal; } td small { display: block; }
  th:first-child, td:first-child { min-width: 8em; } }
"""

# Plotly draws its own text and grid: it gets the page's colours when a figure is drawn, and when the reader switches.
SCRIPT = """
const figures = JSON.parse(document.getElementById('figures').textContent);
const hidden = new Set(), drawn = new Set();
function colours() {
  const page = getComputedStyle(document.documentElement);
  return name => page.getPropertyValue('--' + name).trim();
}
function themed(layout) {
  const of = colours();
  const full = {margin: {l: 64, r: 16, t: 10, b: 52}, hovermode: 'closest', showlegend: false, bargap: 0.25,
    ...layout, autosize: true, font: {color: of('ink'), family: 'system-ui, sans-serif', size: 13},
    paper_bgcolor: 'rgba(0,0,0,0)', plot_bgcolor: 'rgba(0,0,0,0)'};
  for (const key of Object.keys(full).filter(key => /^[xy]axis/.test(key)))
    full[key] = {automargin: true, ...full[key], gridcolor: of('line'), zerolinecolor: of('line'), linecolor: of('line'),
      ticks: 'outside', tickcolor: of('line')};
  return full;
}
function shown(trace) { return !hidden.has(trace.legendgroup); }
function draw(place) {
  const figure = figures[place], to = document.getElementById('figure-' + place);
  const traces = figure.traces.map(trace => ({...trace, visible: shown(trace)}));
  Plotly.react(to, traces, themed(figure.layout), {responsive: true, displaylogo: false, displayModeBar: false});
  drawn.add(place);
}
function redraw() { drawn.forEach(draw); }
const near = new IntersectionObserver(entries => entries.forEach(entry => {
  if (entry.isIntersecting) { near.unobserve(entry.target); draw(+entry.target.dataset.place); }
}), {rootMargin: '400px'});
document.querySelectorAll('.plot').forEach(plot => near.observe(plot));
window.matchMedia('(prefers-color-scheme: dark)').addEventListener('change', redraw);
window.addEventListener('beforeprint', () => figures.forEach((_, place) => draw(place)));
document.querySelectorAll('.legend button').forEach(button => button.addEventListener('click', () => {
  const group = button.dataset.group;
  if (!hidden.delete(group)) hidden.add(group);
  button.setAttribute('aria-pressed', String(!hidden.has(group)));
  redraw();
}));
"""


def plotly_js() -> str:
    """The whole of plotly.js, from the installed package."""
    return resources.files("plotly").joinpath("package_data/plotly.min.js").read_text("utf-8")


def as_json(figures: Sequence[Figure]) -> str:
    """Figures as JSON that can stand inside a script element."""
    content = [{"traces": figure.traces, "layout": figure.layout} for figure in figures]
    return json.dumps(content, separators=(",", ":"), allow_nan=False).replace("</", "<\\/")


def page(title: str, intro: str, legend: Sequence[str], figures: Sequence[Figure], footer: str = "") -> str:
    """The whole page. `intro` and `footer` are HTML, above the legend and at the end; `legend` names what the colours are."""
    return (
        f"<!doctype html><html lang='en'><head><meta charset='utf-8'><title>{html.escape(title)}</title>"
        "<meta name='viewport' content='width=device-width, initial-scale=1'>"
        f"<style>{STYLE}</style></head><body>"
        f"<h1>{html.escape(title)}</h1>{intro}{_legend(legend)}"
        f"<div class='figures'>{''.join(_section(place, figure) for place, figure in enumerate(figures))}</div>{footer}"
        f"<script type='application/json' id='figures'>{as_json(figures)}</script>"
        # Last, so that the table is on the screen while the browser reads it.
        f"<script>{plotly_js()}</script><script>{SCRIPT}</script></body></html>\n"
    )


def footer(settings: Sequence[Mapping[str, Any]], command: str | None) -> str:
    """How the results of a page were made: their settings, with the SHA-256 of the trace and the version, and a command."""
    rows = [
        (NAMES.get(name, name.replace("_", " ")), _distinct([one[name] for one in settings])) for name in settings[0]
    ]
    listed = "".join(
        f"<div{_wide(len(text) > LONG_VALUE)}><dt>{escaped(name)}</dt><dd>{escaped(text)}</dd></div>"
        for name, text in rows
    )
    again = f"<pre>{escaped(command)}</pre>" if command else ""
    return f"<footer><h2>How this was made</h2>{again}<dl>{listed}</dl></footer>"


def _distinct(values: Sequence[Any]) -> str:
    """Different values in their order, the first few of many; a dash where none is set."""
    plain = {True: "yes", False: "no"}
    several = [value for value in dict.fromkeys(values) if value is not None]
    texts = [plain[value] if isinstance(value, bool) else str(value) for value in several]
    more = f" and {len(texts) - MOST_VALUES} more" if len(texts) > MOST_VALUES else ""
    return ", ".join(texts[:MOST_VALUES]) + more or "–"


def _legend(names: Sequence[str]) -> str:
    if len(names) < 2:
        return ""
    styles = ("solid", "dashed", "dotted", "double")
    buttons = (
        f"<button type='button' aria-pressed='true' data-group='{place}'>"
        f"<i style='border-color:{colour(place)};border-top-style:{styles[place // len(COLOURS) % 4]}'></i>{html.escape(name)}</button>"
        for place, name in enumerate(names)
    )
    return f"<div class='legend'>{''.join(buttons)}</div>"


def _section(place: int, figure: Figure) -> str:
    return (
        f"<section{_wide(figure.wide)}><h2>{html.escape(figure.title)}</h2><p>{html.escape(figure.note)}</p>"
        f"<div class='plot' id='figure-{place}' data-place='{place}' style='height:{figure.height}px'></div></section>"
    )


def _wide(whether: bool) -> str:
    """The CSS class of a figure as wide as the page."""
    return " class='wide'" if whether else ""


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table; cells are HTML already."""
    top = "".join(f"<th>{cell}</th>" for cell in head)
    body = "".join(f"<tr>{''.join(f'<td>{cell}</td>' for cell in row)}</tr>" for row in rows)
    return f"<div class='scroll'><table><thead><tr>{top}</tr></thead><tbody>{body}</tbody></table></div>"


def escaped(value: Any) -> str:
    """Text for a cell."""
    return html.escape(str(value))
