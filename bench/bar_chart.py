"""Horizontal bars as SVG text, for results in the documentation: readable on light and dark pages, no library."""

import html

from bench.line_chart import STYLE

WIDTH, RIGHT, TOP = 800, 64, 50
LEAST_LEFT, CHARACTER = 190, 7  # room for names on the left: at least, and for each character
BAR, GAP, BETWEEN = 13, 2, 12
# Of Okabe and Ito's palette, which colour-blind people can tell apart.
COLOURS = ("#56B4E9", "#0072B2", "#D55E00", "#009E73")
TITLE_SIZE = 16


def bar_chart(title: str, names: list[str], series: dict[str, list[float]], unit: str = "") -> str:
    """A group of bars per name, one of them per series. Bars begin at 0 and go left from there for values below it."""
    top = max(max(values) for values in series.values()) or 1.0
    low = min(0.0, *(min(values) for values in series.values()))
    group = len(series) * (BAR + GAP) + BETWEEN
    height = TOP + len(names) * group + 14
    left = max(LEAST_LEFT, 16 + CHARACTER * max(map(len, names)))

    def x(value: float) -> float:
        return left + (value - low) / (top - low) * (WIDTH - left - RIGHT)

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img">',
        f"<title>{html.escape(title)}</title><style>{STYLE}.s{{font-size:12px}}.b{{fill:none}}</style>",
        f'<rect width="{WIDTH}" height="{height}"/><text x="14" y="20">{html.escape(title)}</text>',
    ]
    for place, name in enumerate(series):
        at, colour = left + 150 * place, COLOURS[place % len(COLOURS)]
        parts.append(f'<path d="M{at} 30h12v10h-12z" fill="{colour}"/>')
        parts.append(f'<text class="s" x="{at + 17}" y="39">{html.escape(name)}</text>')
    for place, name in enumerate(names):
        y = TOP + place * group + BETWEEN / 2
        middle = y + len(series) * (BAR + GAP) / 2 + 4
        parts.append(f'<text x="{left - 8}" y="{middle:.1f}" text-anchor="end">{html.escape(name)}</text>')
        for row, values in enumerate(series.values()):
            at = y + row * (BAR + GAP)
            begin, end = sorted((x(0.0), x(values[place])))
            wide = max(end - begin, 1.0)
            parts.append(
                f'<path d="M{begin:.1f} {at:.1f}h{wide:.1f}v{BAR}h-{wide:.1f}z" fill="{COLOURS[row % len(COLOURS)]}"/>'
            )
            parts.append(
                f'<text class="s" x="{begin + wide + 4:.1f}" y="{at + BAR - 2:.1f}">{values[place]:.1f}{html.escape(unit)}</text>'
            )
    return "".join(parts) + "</svg>\n"
