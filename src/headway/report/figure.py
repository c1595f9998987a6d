"""A figure as plain data for plotly.js, and the few conventions that all figures of a report share.

Figures are dictionaries in plotly's format: building them needs no import of plotly, so writing a report of 80,000 jobs takes no longer
than computing its data. Curves are thinned out here, so that a page stays small whatever the size of the trace.
"""

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headway.report.times import UNITS

# Okabe and Ito's palette first, which colour-blind people can distinguish; all are visible on white and on black.
COLOURS = (
    *("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#8C8C8C"),
    *("#7E57C2", "#8A9A1B", "#D81B60", "#8B4A1F", "#1FB5B0"),
)
DASHES = ("solid", "dash", "dot", "dashdot")
# Points of a curve: a screen does not show more.
POINTS = 400
# Ticks of a time axis: value in seconds, text.
TICKS = (
    *((0.001, "1 ms"), (0.01, "10 ms"), (0.1, "0.1 s"), (1.0, "1 s"), (10.0, "10 s"), (60.0, "1 min")),
    *((600.0, "10 min"), (3600.0, "1 h"), (36_000.0, "10 h"), (259_200.0, "3 d"), (2_592_000.0, "30 d")),
    *((31_536_000.0, "1 y"), (315_360_000.0, "10 y")),
)
# More ticks for short axes.
FINE_TICKS = (
    *((2.0, "2 s"), (5.0, "5 s"), (30.0, "30 s"), (120.0, "2 min"), (300.0, "5 min"), (1800.0, "30 min")),
    *((7200.0, "2 h"), (18_000.0, "5 h"), (86_400.0, "1 d"), (604_800.0, "7 d")),
)
ENOUGH_TICKS, FEWEST_TICKS = 4, 3
DAY_S, HOUR_S = 86_400.0, 3600.0


@dataclass(frozen=True, slots=True)
class Figure:
    """One plot: `name` is its file name under `--png`, `note` one sentence below the title."""

    name: str
    title: str
    note: str
    traces: list[dict[str, Any]]
    layout: dict[str, Any] = field(default_factory=dict)
    height: int = 340
    wide: bool = False  # takes the whole width of the page


def colour(place: int) -> str:
    """The colour of the policy at this place."""
    return COLOURS[place % len(COLOURS)]


def line(place: int) -> dict[str, Any]:
    """The line of the policy at this place; once the colours are used up, dashes distinguish them."""
    return {"color": colour(place), "dash": DASHES[place // len(COLOURS) % len(DASHES)], "width": 2}


# For figures whose colours are not policies: a legend of their own.
OWN_LEGEND: dict[str, Any] = {
    "showlegend": True,
    "legend": {"orientation": "h", "y": 1.02, "yanchor": "bottom", "x": 1, "xanchor": "right"},
    "margin": {"l": 70, "r": 20, "t": 50, "b": 50},
}


def of_policy(place: int, name: str) -> dict[str, Any]:
    """What every trace of a policy carries, so that one click on the page's legend shows or hides all of them."""
    return {"name": name, "legendgroup": str(place), "showlegend": True}


def curve(place: int, name: str, x: list[Any], y: list[Any], **more: Any) -> dict[str, Any]:
    """A curve of a policy; `line` may change its line."""
    drawn = line(place) | more.pop("line", {})
    return {**of_policy(place, name), "type": "scatter", "mode": "lines", "x": x, "y": y, "line": drawn, **more}


def bars(place: int, name: str, x: list[Any], y: list[Any], **more: Any) -> dict[str, Any]:
    """Bars of a policy."""
    return {**of_policy(place, name), "type": "bar", "x": x, "y": y, "marker": {"color": colour(place)}, **more}


def numbers(values: NDArray[Any]) -> list[float | None]:
    """For JSON: five digits are more than a screen shows; what is not a number is a gap."""
    array = np.asarray(values, np.float64)
    return [float(f"{value:.5g}") if np.isfinite(value) else None for value in array.tolist()]


def cdf(values: NDArray[np.float64]) -> tuple[list[float | None], list[float | None]]:
    """A cumulative distribution thinned to its quantiles, with the extremes: values, percent at most that large."""
    ordered = np.sort(values)
    n = len(ordered)
    # Steps in the middle, and closer ones at the top, where the tail is what readers look for.
    top = 1 - np.geomspace(0.05, 1 / n, POINTS // 4) if n > 20 else np.ones(1)
    rank = np.unique(np.ceil(np.concatenate([np.linspace(1 / n, 1, POINTS), top]) * n).astype(np.int64)).clip(1, n)
    return numbers(ordered[rank - 1]), numbers(100 * rank / n)


def time_ticks(low_s: float, high_s: float) -> dict[str, Any]:
    """A log axis over times with ticks that carry their units."""
    low, high = max(low_s, 1e-6), max(high_s, low_s * 1.01, 1e-6)
    fine = [tick for tick in sorted((*TICKS, *FINE_TICKS)) if low <= tick[0] <= high]
    ticks = [tick for tick in fine if tick in TICKS]
    if len(ticks) >= ENOUGH_TICKS:
        chosen = ticks + [
            tick for tick in fine[-1:] if tick not in ticks
        ]  # otherwise there is none between 1 h and 10 h
    elif len(fine) >= FEWEST_TICKS:
        chosen = fine
    else:
        scale, unit = next((scale, unit) for limit, scale, unit in UNITS if high < limit)
        chosen = [(value * scale, f"{value:.6g} {unit}") for value in _even(low / scale, high / scale)]
    return _log_axis(low, high, chosen)


def ratio_ticks(low: float, high: float) -> dict[str, Any]:
    """A log axis over ratios that has at least three ticks, however narrow it is."""
    high = max(high, low * 1.01)
    powers = [10.0**k for k in range(math.ceil(math.log10(low)), math.floor(math.log10(high)) + 1)]
    fine = [
        digit * 10.0**k for k in range(math.floor(math.log10(low)), math.ceil(math.log10(high))) for digit in (1, 2, 5)
    ]
    inside = [value for value in fine if low <= value <= high]
    chosen = next((some for some in (powers, inside) if len(some) >= FEWEST_TICKS), None) or _even(low, high)
    return _log_axis(low, high, [(value, f"{value:,.6g}" if value < 1e6 else f"{value:,.0f}") for value in chosen])


def _even(low: float, high: float) -> list[float]:
    """At least three round numbers at even distances."""
    rough = (high - low) / FEWEST_TICKS
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(digit * power for digit in (5, 2, 1) if digit * power <= rough * (1 + 1e-9))
    return [step * k for k in range(math.ceil(low / step), math.floor(high / step) + 1)]


def _log_axis(low: float, high: float, ticks: list[tuple[float, str]]) -> dict[str, Any]:
    return {
        "type": "log",
        "tickangle": 0,
        "tickvals": [value for value, _ in ticks],
        "ticktext": [text for _, text in ticks],
        "range": [math.log10(low) - 0.05, math.log10(high) + 0.05],
    }


def axis(title: str, **more: Any) -> dict[str, Any]:
    """An axis with its title."""
    return {"title": {"text": title, "standoff": 12}, **more}


def shortened(names: list[str], length: int) -> list[str]:
    """Names of about this length, cut in the middle; longer where they would become equal."""
    end = length // 2
    short = [name if len(name) <= length else f"{name[: length - end - 1]}…{name[-end:]}" for name in names]
    return short if len(set(short)) == len(set(names)) else shortened(names, length + 4)


def time_unit(span_s: float) -> tuple[float, str]:
    """The unit of an axis of time: hours up to four days, then days."""
    return (DAY_S, "days") if span_s > 4 * DAY_S else (HOUR_S, "hours")
