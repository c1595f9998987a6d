"""A small line chart as SVG text, for results in the documentation: readable on light and dark pages, no library."""

import html
import math

WIDTH, HEIGHT = 760, 380
LEFT, RIGHT, TOP, BOTTOM = 60, 172, 44, 40
# Of Okabe and Ito's palette, which colour-blind people can tell apart.
COLOURS = {"baseline": "#999999", "themis-fifo": "#56B4E9", "themis-scf": "#0072B2", "best": "#D55E00"}
OTHERS = ("#CC79A7", "#009E73", "#E69F00", "#0072B2", "#D55E00", "#56B4E9")
REFERENCE = "#808890"  # visible on light and dark pages
STYLE = (
    "text{font:13px system-ui,sans-serif;fill:#1b1f24}line{stroke:#d8dee4}rect{fill:#fff}"
    "@media(prefers-color-scheme:dark){text{fill:#e6edf3}line{stroke:#30363d}rect{fill:#12161b}}"
)
# Labels at the right end keep this distance from each other.
LABEL_GAP = 17
MOST_STEPS = 7  # between the bottom and the top of the y axis


def line_chart(
    title: str,
    ticks: list[str],
    lines: dict[str, list[float]],
    top: float = 100.0,
    *,
    low: float = 0.0,
    x_title: str = "",
    unit: str = "",
    colours: dict[str, str] | None = None,
    dashed: tuple[str, ...] = (),
    reference: tuple[float, str] | None = None,
) -> str:
    """Return one line per name over equally spaced ticks, values from `low` to `top`.

    `dashed` lines are drawn last, so that a line below them stays visible. `reference` is a value to compare with, and its name.
    """

    def x(place: float) -> float:
        return LEFT + place * (WIDTH - LEFT - RIGHT) / (len(ticks) - 1)

    def y(value: float) -> float:
        return HEIGHT - BOTTOM - (value - low) / (top - low) * (HEIGHT - TOP - BOTTOM)

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT + 18 * bool(x_title)}" role="img">',
        f"<title>{html.escape(title)}</title><style>{STYLE}</style>",
        f'<rect width="{WIDTH}" height="{HEIGHT + 18 * bool(x_title)}"/>',
        f'<text x="{LEFT}" y="22">{html.escape(title)}</text>',
    ]
    step = _step(top - low)
    for number in range(math.ceil(low / step), math.floor(top / step) + 1):
        height = y(number * step)
        parts.append(f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{height:.1f}" y2="{height:.1f}"/>')
        parts.append(
            f'<text x="{LEFT - 8}" y="{height + 4:.1f}" text-anchor="end">{number * step:g}{html.escape(unit)}</text>'
        )
    for place, tick in enumerate(ticks):
        parts.append(
            f'<text x="{x(place):.1f}" y="{HEIGHT - BOTTOM + 20}" text-anchor="middle">{html.escape(tick)}</text>'
        )
    if x_title:
        middle = x((len(ticks) - 1) / 2)
        parts.append(
            f'<text x="{middle:.1f}" y="{HEIGHT - BOTTOM + 42}" text-anchor="middle">{html.escape(x_title)}</text>'
        )
    ends = {name: values[-1] for name, values in lines.items()}
    if reference:
        value, name = reference
        ends[name] = value
        parts.append(_path([(x(0), y(value)), (x(len(ticks) - 1), y(value))], REFERENCE, 1.5, "2 3"))
    unnamed = (OTHERS[place % len(OTHERS)] for place in range(len(lines)))
    shown = {name: (colours or COLOURS).get(name) or next(unnamed) for name in lines}
    for name in sorted(lines, key=lambda name: name in dashed):
        points = [(x(place), y(value)) for place, value in enumerate(lines[name])]
        parts.append(_path(points, shown[name], 2.5, "7 5" if name in dashed else ""))
    label_y = float("-inf")
    for name in sorted(ends, key=lambda name: -ends[name]):
        label_y = max(label_y + LABEL_GAP, y(ends[name]) + 4)
        at, dashes = WIDTH - RIGHT + 8, "7 5" if name in dashed else ""
        if name in shown:
            parts.append(_path([(at, label_y - 4), (at + 18, label_y - 4)], shown[name], 2.5, dashes))
        else:
            parts.append(_path([(at, label_y - 4), (at + 18, label_y - 4)], REFERENCE, 1.5, "2 3"))
        parts.append(f'<text x="{at + 24}" y="{label_y:.1f}">{html.escape(name)}</text>')
    return "".join(parts) + "</svg>\n"


def _step(span: float) -> float:
    """Return the least of 1, 2 and 5 times a power of ten that cuts a span into at most MOST_STEPS parts."""
    power = 10.0 ** math.floor(math.log10(span / MOST_STEPS))
    return next(power * factor for factor in (1, 2, 5, 10) if power * factor * MOST_STEPS >= span)


def _path(points: list[tuple[float, float]], colour: str, width: float, dashes: str) -> str:
    """Return a line through points, dashed if `dashes` says how."""
    text, dash = " ".join(f"{x:.1f},{y:.1f}" for x, y in points), f' stroke-dasharray="{dashes}"' if dashes else ""
    return f'<polyline points="{text}" fill="none" stroke="{colour}" stroke-width="{width}"{dash}/>'
