"""A small line chart as SVG text, for results in the documentation: readable on light and dark pages, no library."""

import html

WIDTH, HEIGHT = 760, 380
LEFT, RIGHT, TOP, BOTTOM = 52, 170, 44, 40
# Of Okabe and Ito's palette, which colour-blind people can tell apart.
COLOURS = {"baseline": "#999999", "themis-fifo": "#56B4E9", "themis-scf": "#0072B2", "best": "#D55E00"}
OTHERS = ("#CC79A7", "#009E73", "#E69F00", "#0072B2", "#D55E00", "#56B4E9")
STYLE = (
    "text{font:13px system-ui,sans-serif;fill:#1b1f24}line{stroke:#d8dee4}rect{fill:#fff}"
    "@media(prefers-color-scheme:dark){text{fill:#e6edf3}line{stroke:#30363d}rect{fill:#12161b}}"
)
# Labels at the right end keep this distance from each other.
LABEL_GAP = 17


def line_chart(title: str, ticks: list[str], lines: dict[str, list[float]], top: float = 100.0) -> str:
    """One line per name over equally spaced ticks, values from 0 to `top`."""

    def x(place: float) -> float:
        return LEFT + place * (WIDTH - LEFT - RIGHT) / (len(ticks) - 1)

    def y(value: float) -> float:
        return HEIGHT - BOTTOM - value / top * (HEIGHT - TOP - BOTTOM)

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img">',
        f"<title>{html.escape(title)}</title><style>{STYLE}</style>",
        f'<rect width="{WIDTH}" height="{HEIGHT}"/><text x="{LEFT}" y="22">{html.escape(title)}</text>',
    ]
    for step in range(6):
        value = top * step / 5
        parts.append(f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y(value):.1f}" y2="{y(value):.1f}"/>')
        parts.append(f'<text x="{LEFT - 8}" y="{y(value) + 4:.1f}" text-anchor="end">{value:g}</text>')
    for place, tick in enumerate(ticks):
        parts.append(
            f'<text x="{x(place):.1f}" y="{HEIGHT - BOTTOM + 20}" text-anchor="middle">{html.escape(tick)}</text>'
        )
    unnamed = (OTHERS[place % len(OTHERS)] for place in range(len(lines)))
    colours = {name: COLOURS.get(name) or next(unnamed) for name in lines}
    label_y = float("-inf")
    by_end = sorted(lines.items(), key=lambda item: -item[1][-1])
    for name, values in by_end:
        colour = colours[name]
        points = " ".join(f"{x(place):.1f},{y(value):.1f}" for place, value in enumerate(values))
        parts.append(f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="2.5"/>')
        label_y = max(label_y + LABEL_GAP, y(values[-1]) + 4)
        parts.append(
            f'<text x="{WIDTH - RIGHT + 10}" y="{label_y:.1f}" style="fill:{colour}">{html.escape(name)}</text>'
        )
    return "".join(parts) + "</svg>\n"
