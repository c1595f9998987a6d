"""The page of `headway fabric show --report`: the fabric drawn as switches and cables, and who holds which uplink."""

import html
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headway.network.certificates.certificate import Certificate
from headway.network.fabric.model import Fabric

MOST_SHOWN = 32  # switches of one kind; more lines cannot be distinguished, the map below shows all
FREE_COLOUR = "#d9dee3"
# Okabe and Ito's palette, which colour-blind people can tell apart; jobs take them in turn.
JOB_COLOURS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#F0E442")


def page(fabric: Fabric, certificates: list[Certificate]) -> str:
    """The whole page as HTML; works offline."""
    import plotly.graph_objects as go
    from plotly.subplots import make_subplots

    titles = ("Switches and cables", "Uplinks of every leaf: who holds them")
    figure = make_subplots(rows=2, cols=1, subplot_titles=titles, row_heights=[0.45, 0.55], vertical_spacing=0.12)
    holder = _holders(fabric, certificates)
    _drawing(figure, go, fabric, holder)
    _map(figure, go, fabric, holder, len(certificates))
    title = f"{html.escape(fabric.name)}: {fabric.gpus:,} GPUs, {fabric.leaves} leaves, {fabric.cables:,} cables"
    figure.update_layout(
        title={"text": title, "x": 0.02},
        template="plotly_white",
        height=1100,
        margin={"l": 70, "r": 30, "t": 100, "b": 60},
        legend={"orientation": "h", "y": -0.06},
    )
    return str(figure.to_html(include_plotlyjs=True, full_html=True, config={"displaylogo": False}))


def _holders(fabric: Fabric, certificates: list[Certificate]) -> NDArray[np.int64]:
    """holder[leaf, uplink]: the number of the certificate that holds it; -1 if free."""
    holder = np.full((fabric.leaves, fabric.uplinks), -1, np.int64)
    names = {fabric.cable_name(cable): cable for cable in range(fabric.leaves * fabric.uplinks)}
    for number, certificate in enumerate(certificates):
        for link in certificate.links:
            if link in names:
                holder[divmod(names[link], fabric.uplinks)] = number
    return holder


def _owner(number: int) -> str:
    return "free" if number < 0 else f"certificate {number + 1}"


def _side_by_side(count: int) -> list[float]:
    """Positions of `count` switches from left to right."""
    return [(i + 0.5) / count for i in range(count)]


def _drawing(figure: Any, go: Any, fabric: Fabric, holder: NDArray[np.int64]) -> None:
    """Leaves below, what their uplinks end on above, one line per cable, in the colour of its holder."""
    uppers = fabric.uplinks if fabric.ocs else fabric.spines
    leaves, upper_count = min(fabric.leaves, MOST_SHOWN), min(uppers, MOST_SHOWN)
    leaf_x, upper_x = _side_by_side(leaves), _side_by_side(upper_count)
    lanes = 1 if fabric.ocs else fabric.parallel_links
    for owner in range(-1, int(holder.max(initial=-1)) + 1):
        ends = np.argwhere(holder[:leaves] == owner) // (1, lanes)
        ends = ends[ends[:, 1] < upper_count]
        x = [place for leaf, upper in ends for place in (leaf_x[leaf], upper_x[upper], None)]
        y = [0.0, 1.0, None] * len(ends)
        colour = FREE_COLOUR if owner < 0 else JOB_COLOURS[owner % len(JOB_COLOURS)]
        line = {"color": colour, "width": 0.6 if owner < 0 else 1.6}
        cables = go.Scatter(x=x, y=y, mode="lines", line=line, name=_owner(owner), hoverinfo="skip")
        figure.add_trace(cables, row=1, col=1)
    kind = "OCS" if fabric.ocs else "aggregation" if fabric.kind == "three-tier" else "spine"
    for xs, height, symbol, names in (
        (upper_x, 1.0, "square", [f"{kind} {i}" for i in range(upper_count)]),
        (leaf_x, 0.0, "circle", [fabric.leaf_name(i) for i in range(leaves)]),
    ):
        marker, ys = {"size": 11, "symbol": symbol, "color": "#333333"}, [height] * len(xs)
        switches = go.Scatter(x=xs, y=ys, mode="markers", marker=marker, text=names, hoverinfo="text", showlegend=False)
        figure.add_trace(switches, row=1, col=1)
    figure.update_xaxes(visible=False, row=1, col=1)
    more = ", the first of each kind" if leaves < fabric.leaves or upper_count < uppers else ""
    figure.update_yaxes(
        tickvals=[0, 1], ticktext=["leaves", f"{kind}s" if kind != "OCS" else kind], showgrid=False, zeroline=False,
        range=[-0.15, 1.15], title_text=f"{leaves} of {fabric.leaves} leaves{more}", row=1, col=1,
    )  # fmt: skip


def _map(figure: Any, go: Any, fabric: Fabric, holder: NDArray[np.int64], jobs: int) -> None:
    """A cell for every uplink of every leaf, in the colour of its holder."""
    colours = [FREE_COLOUR] + [JOB_COLOURS[i % len(JOB_COLOURS)] for i in range(jobs)]
    steps = [((i + end) / len(colours), colour) for i, colour in enumerate(colours) for end in (0, 1)]

    def words(leaf: int, uplink: int) -> str:
        ends = fabric.cable_name(fabric.leaf_cable(leaf, uplink))
        return f"{' - '.join(ends)}: {_owner(holder[leaf, uplink])}"

    text = [[words(leaf, uplink) for leaf in range(fabric.leaves)] for uplink in range(fabric.uplinks)]
    cells = go.Heatmap(
        z=holder.T, zmin=-1, zmax=len(colours) - 1, colorscale=steps, showscale=False, text=text, hoverinfo="text",
        xgap=0.5 if fabric.leaves <= 128 else 0, ygap=0.5,
    )  # fmt: skip
    figure.add_trace(cells, row=2, col=1)
    figure.update_xaxes(title_text="leaf", row=2, col=1)
    figure.update_yaxes(title_text="optical switch" if fabric.ocs else "uplink (virtual spine)", row=2, col=1)
