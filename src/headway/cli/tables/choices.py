"""Tables of policies and placements for a terminal. Loads no engine."""

from collections.abc import Mapping

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table


def show_choices(kind: str, choices: Mapping[str, tuple[str, Mapping[str, str]]]) -> None:
    """Print names with a summary, and with options and their defaults."""
    listed = Table(box=SIMPLE_HEAD)
    for column in (kind, "what it does", "options: default"):
        listed.add_column(column, no_wrap=column == kind)
    for name, (summary, defaults) in choices.items():
        listed.add_row(name, summary, "\n".join(f"{option}: {default}" for option, default in defaults.items()))
    Console().print(listed)


def show_meanings(options: Mapping[str, str]) -> None:
    """Print options with what they mean."""
    listed = Table(box=SIMPLE_HEAD)
    listed.add_column("option", no_wrap=True)
    listed.add_column("what it means")
    for name, meaning in options.items():
        listed.add_row(name, meaning)
    Console().print(listed)
