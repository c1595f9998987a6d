"""The report of `sweep report`: lines with bands over each numeric parameter, and heat maps over pairs of parameters.

Rows are the sweep's table. Seeds are never an axis: lines and cells are means over them, bands are 95 % confidence.
"""

import itertools
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from headway.errors import BadInput, unknown
from headway.io import specs
from headway.report.figure import Figure, axis, colour, line, of_policy, time_ticks
from headway.report.page import escaped, footer, page, table
from headway.report.seeds import Interval, interval
from headway.report.times import UNITS, duration

Row = dict[str, Any]
METRICS = {
    "jct_mean_s": "mean JCT",
    "jct_median_s": "median JCT",
    "jct_p95_s": "95th percentile of JCT",
    "jct_p99_s": "99th percentile of JCT",
    "queue_mean_s": "mean waiting time",
    "makespan_s": "makespan",
    "gpu_utilisation": "GPU utilisation (share)",
    "goodput": "useful GPU time (share)",
    "preemptions": "preemptions (times)",
}
# Times further apart than this are drawn on a log axis.
FAR_APART = 20
# More small plots than this nobody looks at; the table has all.
MOST_PANELS = 12
MOST_ROWS = 200
# Heat maps: from pale to deep, all light enough for dark letters, on white and on black paper alike.
HEAT = [[0.0, "#FBF6DF"], [0.5, "#F2C65C"], [1.0, "#D9772B"]]
HEAT_INK = "#1B1F24"
# The whole scale is at least so wide: a quarter in times (a tenth in their logarithm), a tenth in others.
LEAST_SPREAD = 0.1
# Titles of axes that need more than their name.
TITLES = {
    "load": "offered load (share of all GPUs)",
    "option:threshold": "threshold (GPU-seconds)",
    "option:quantum": "quantum (s)",
    "option:promote": "promote (ratio)",
    "option:queues": "queues (number)",
}


@dataclass(frozen=True, slots=True)
class Grid:
    """The table of a sweep with the axes that vary; options of policies are axes of their own."""

    rows: list[Row]
    settings: tuple[str, ...]  # the columns that say what was run
    metric: str
    lines: tuple[str, ...]  # names of the policies, without the options that vary
    axes: dict[str, list[Any]]

    def mean(self, **at: Any) -> Interval | None:
        """The metric at a point: the mean over everything else that the rows there differ in, then over seeds."""
        by_seed: dict[int, list[float]] = {}
        for row in self.rows:
            if all(row.get(name) == value for name, value in at.items()):
                by_seed.setdefault(row["seed"], []).append(row[self.metric])
        return interval([sum(found) / len(found) for found in by_seed.values()]) if by_seed else None


def grid(rows: Sequence[Row], metric: str, settings: Sequence[str]) -> Grid:
    """Find which settings vary. Options given to a policy, such as `threshold=3200`, become columns `option:threshold`."""
    if not rows:
        raise BadInput("the sweep has no finished cells yet: run it first")
    if metric not in METRICS:
        raise unknown("metric", metric, METRICS)
    split = [_with_options(row) for row in rows]
    # The load is what is looked at first; policies are lines, and seeds are averaged over.
    others = (name for name in settings if name not in ("load", "policy", "seed"))
    names = ("load", *others, *sorted({key for row in split for key in row if key.startswith("option:")}))
    axes = {}
    for name in names:
        values = list(dict.fromkeys(row[name] for row in split if row.get(name) is not None))
        if len(values) > 1:
            axes[name] = sorted(values) if all(map(_is_number, values)) else values
    return Grid(split, tuple(settings), metric, tuple(dict.fromkeys(row["line"] for row in split)), axes)


def _with_options(row: Row) -> Row:
    name, options = specs.split(row["policy"])
    numeric = {key: _number(value) for key, value in options.items()}
    texts = [f"{key}={options[key]}" for key, value in numeric.items() if value is None]
    line = f"{name}?{'&'.join(texts)}" if texts else name
    return row | {"line": line} | {f"option:{key}": value for key, value in numeric.items() if value is not None}


def _number(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) else None


def sweep_report(title: str, found: Grid, command: str | None = None) -> str:
    """The whole page as HTML; `command` runs the sweep again."""
    rows = found.rows
    seeds = len({row["seed"] for row in rows})
    varied = ", ".join(f"{_plain(name)} ({len(values)})" for name, values in found.axes.items()) or "the policy only"
    intro = (
        f"<p>{len(rows):,} cells, {seeds} seeds. Varied: {escaped(varied)}. Bands are 95 % confidence over seeds.</p>"
    )
    names = (*found.settings, "trace_sha256", "version")
    footer_text = footer([{name: row.get(name) for name in names} for row in rows], command)
    return page(f"Sweep {title}", intro + _table(found), found.lines, figures(found), footer_text)


def figures(found: Grid) -> list[Figure]:
    """A line plot for each axis in numbers, a heat map for each pair of axes; one of each for every other choice."""
    drawn: list[Figure] = []
    for name, values in found.axes.items():
        if all(map(_is_number, values)):
            drawn += _first(_lines(found, name, at) for at in _panels(found, name))
    if len(found.lines) > 1:
        for name in found.axes:
            drawn += _first(_heat(found, name, "line", at) for at in _panels(found, name))
    for (one, other), policy in itertools.product(itertools.combinations(found.axes, 2), found.lines):
        drawn += _first(_heat(found, one, other, at | {"line": policy}) for at in _panels(found, one, other))
    return drawn if found.axes else [_bars(found)]


def _panels(found: Grid, *used: str) -> Iterator[Row]:
    """Every choice of the axes not used; options of policies are averaged over, as not all have them."""
    others = [name for name in found.axes if name not in used and not name.startswith("option:")]
    for choice in itertools.product(*(found.axes[name] for name in others)):
        yield dict(zip(others, choice, strict=True))


def _first(drawn: Iterable[Figure | None]) -> list[Figure]:
    return list(itertools.islice(filter(None, drawn), MOST_PANELS))


def _figure(found: Grid, names: tuple[str, ...], at: Row, traces: list[Row], layout: Row, height: int = 340) -> Figure:
    """Lines over one axis or a heat map of two; the file's name says what is drawn, then the values that the panel is for."""
    kind, between = ("lines", "over") if len(names) == 1 else ("heat", "by")
    title = f"{METRICS[found.metric]} {between} {' and '.join(map(_plain, names))}"
    name = "-".join((kind, *map(_plain, names), *map(_label, at.values())))
    where = ", ".join(f"{_plain(key)} {_label(value)}" for key, value in at.items()) or "Means over seeds."
    return Figure(name, _capital(title), where, traces, layout, height)


def _lines(found: Grid, name: str, at: Row) -> Figure | None:
    known = {policy: _points(found, name, at | {"line": policy}) for policy in found.lines}
    means = [point.mean for points in known.values() for point in points.values()]
    if not means:
        return None
    y, scale = _y_axis(found.metric, min(means), max(means))
    traces: list[Row] = []
    for place, (policy, points) in enumerate(known.items()):
        if points:
            traces += _line_with_band(place, policy, _plain(name), points, scale)
    return _figure(found, (name,), at, traces, {"xaxis": axis(_axis_title(name)), "yaxis": y})


def _points(found: Grid, name: str, at: Row) -> dict[Any, Interval]:
    """The metric along an axis, where it has a value."""
    points = ((x, found.mean(**at, **{name: x})) for x in found.axes[name])
    return {x: point for x, point in points if point is not None}


def _y_axis(metric: str, low: float, high: float) -> tuple[dict[str, Any], float]:
    """The axis of a metric, and what its values are divided by: times from zero in one unit, or by logarithm if far apart."""
    if not metric.endswith("_s"):
        return axis(METRICS[metric], rangemode="tozero"), 1.0
    if low > 0 and high > FAR_APART * low:
        return axis(f"{METRICS[metric]} (log axis)", **time_ticks(low / 2, high * 2)), 1.0
    scale, unit = next((scale, unit) for limit, scale, unit in UNITS if high < limit)
    return axis(f"{METRICS[metric]} ({unit})", rangemode="tozero"), scale


def _line_with_band(
    place: int, policy: str, name: str, points: dict[Any, Interval], scale: float
) -> list[dict[str, Any]]:
    xs, means = list(points), [point.mean / scale for point in points.values()]
    halves = [(point.half or 0.0) / scale for point in points.values()]
    high = [mean + half for mean, half in zip(means, halves, strict=True)]
    # No metric is negative; on a log axis the band must stay above zero.
    low = [max(mean - half, mean / 1000) for mean, half in zip(means, halves, strict=True)]
    shape = {"x": xs + xs[::-1], "y": high + low[::-1], "fill": "toself", "fillcolor": _faint(colour(place))}
    hidden = {"hoverinfo": "skip", "mode": "lines", "line": {"width": 0}, "type": "scatter"}
    hover = f"{policy}<br>{name} %{{x}}: %{{y:.4g}}<extra></extra>"
    middle = {"x": xs, "y": means, "mode": "lines+markers", "line": line(place), "hovertemplate": hover}
    band = {**of_policy(place, policy), "showlegend": False, **shape, **hidden}
    return [band, {**of_policy(place, policy), "type": "scatter", **middle}]


def _heat(found: Grid, one: str, other: str, at: Row) -> Figure | None:
    """A heat map, without the rows and columns that have no value; None where a line plot says as much, or nothing varies."""
    rows = {y: _points(found, one, at | {other: y}) for y in (found.lines if other == "line" else found.axes[other])}
    rows = {y: points for y, points in rows.items() if points}
    xs = [x for x in found.axes[one] if any(x in points for points in rows.values())]
    if len(xs) < 2 or (len(rows) < 2 and _is_number(xs[0])):
        return None
    table = [[points[x].mean if x in points else None for x in xs] for points in rows.values()]
    shades, ends = _shades(table, found.metric.endswith("_s"))
    traces = [
        {
            "type": "heatmap", "x": [_label(x) for x in xs], "y": [_label(y) for y in rows],
            "z": shades, "zmin": ends[0], "zmax": ends[1],
            "text": [[_shown(found.metric, value) for value in row] for row in table], "texttemplate": "%{text}",
            "textfont": {"color": HEAT_INK}, "colorscale": HEAT, "showscale": False, "xgap": 2, "ygap": 2,
            "hovertemplate": "%{x}, %{y}: %{text}<extra></extra>",
        }
    ]  # fmt: skip
    title = _axis_title(other)
    y = axis(title, type="category", autorange="reversed")
    # The title stands upright: few rows must still be as high as it is long.
    height = max(150 + 42 * len(rows), 90 + 9 * len(title))
    layout = {"xaxis": axis(_axis_title(one), type="category"), "yaxis": y}
    return _figure(found, (one, other), at, traces, layout, height)


def _shades(table: list[list[float | None]], times: bool) -> tuple[list[list[float | None]], tuple[float, float]]:
    """What is coloured, and the ends of its scale: values that differ by little must not look as if they differed by much."""
    known = [value for row in table for value in row if value is not None]
    # Times spread over orders of magnitude: colour by their logarithm, write the time itself.
    logs = times and min(known) > 0
    if logs:
        table = [[None if value is None else math.log10(value) for value in row] for row in table]
        known = list(map(math.log10, known))
    low, high = min(known), max(known)
    least = LEAST_SPREAD if logs else LEAST_SPREAD * max(abs(low), abs(high), 1e-9)
    more = max(0.0, least - (high - low)) / 2
    return table, (low - more, high + more)


def _bars(found: Grid) -> Figure:
    means = [found.mean(line=policy) for policy in found.lines]
    traces = [
        {
            **of_policy(place, policy), "type": "bar", "x": [policy], "y": [point.mean if point else None],
            "error_y": {"type": "data", "array": [point.half or 0.0 if point else 0.0]}, "marker": {"color": colour(place)},
        }
        for place, (policy, point) in enumerate(zip(found.lines, means, strict=True))
    ]  # fmt: skip
    unit = METRICS[found.metric] + (" (s)" if found.metric.endswith("_s") else "")
    layout = {"xaxis": axis("policy", type="category"), "yaxis": axis(unit, rangemode="tozero")}
    return Figure("bars", _capital(METRICS[found.metric]), "Means over seeds.", traces, layout, wide=True)


def _table(found: Grid) -> str:
    """Every point with its interval, as text."""
    names = ["line", *found.axes]
    points = list(dict.fromkeys(tuple(row.get(name) for name in names) for row in found.rows))
    cells = []
    for point in points[:MOST_ROWS]:
        mean = found.mean(**dict(zip(names, point, strict=True)))
        assert mean is not None
        half = f" <small>± {_shown(found.metric, mean.half)}</small>" if mean.half is not None else ""
        shown = ("" if value is None else escaped(_label(value)) for value in point)
        cells.append([*shown, _shown(found.metric, mean.mean) + half])
    more = f"<p>{len(points) - MOST_ROWS:,} more in results.csv</p>" if len(points) > MOST_ROWS else ""
    head = [*map(_plain, names), METRICS[found.metric]]
    return f"<details><summary>All {len(points):,} points</summary>{table(head, cells)}{more}</details>"


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float)


def _label(value: Any) -> str:
    """A value as people write it: 800, not 800.0."""
    return f"{value:.12g}" if _is_number(value) else str(value)


def _shown(metric: str, value: float | None) -> str:
    if value is None:
        return ""
    return duration(value) if metric.endswith("_s") else f"{value:,.3g}"


def _axis_title(name: str) -> str:
    return TITLES.get(name, _plain(name))


def _plain(name: str) -> str:
    return "policy" if name == "line" else name.removeprefix("option:").replace("_", " ")


def _capital(text: str) -> str:
    return text[0].upper() + text[1:]


def _faint(hex_colour: str) -> str:
    red, green, blue = (int(hex_colour[k : k + 2], 16) for k in (1, 3, 5))
    return f"rgba({red},{green},{blue},0.18)"
