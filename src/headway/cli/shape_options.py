"""The options that shape a trace, the same in `trace convert`, `simulate` and `compare`."""

from typing import Annotated

import typer

FromOption = Annotated[str, typer.Option("--from", help="Start of the window, from the trace's time 0: 12h, 7d.")]
ToOption = Annotated[str | None, typer.Option("--to", help="End of the window.")]
SampleOption = Annotated[str | None, typer.Option("--sample", help="Jobs to take at random: 1000, or 10%.")]
TimeScaleOption = Annotated[float, typer.Option("--time-scale", help="Multiply all times by this.")]
LoadOption = Annotated[float | None, typer.Option("--load", help="Scale the gaps to this load on --cluster.")]
