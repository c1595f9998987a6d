"""The options of `headway submit` that set a field of a job file, by the path of that field.

Each is declared once. `spec.py` takes the description and the range of the field from here, and so does the API; the command line makes its
options. This module does not load pydantic, which would slow down every command.
"""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from headway.errors import BadInput
from headway.io.command_option import CommandOption, checked_word, flag_of
from headway.io.numbers import Range


def _absolute(option: CommandOption, value: str) -> str:
    """Return an absolute path; a relative path starts at the current folder."""
    return str(Path(value).absolute())


def _variables(option: CommandOption, value: list[str]) -> dict[str, str]:
    """Return environment variables by name."""
    variables = {}
    for text in value:
        name, equals, content = text.partition("=")
        if not equals or not name:
            raise BadInput(f"{flag_of(option)} {text}: write NAME=VALUE")
        variables[name] = content
    return variables


GPUS: Final = Range(1, 1_000_000, whole=True)  # of a job, or on each of its nodes
_DECLARED: Final = {
    "name": CommandOption("Name of the job; default: its program.", short="-n"),
    "num_nodes": CommandOption(
        "Exact number of nodes; default: the placement chooses.",
        flag="nodes",
        short="-N",
        allowed=Range(1, 100_000, whole=True),
        kind=int,
    ),
    "tasks_per_node": CommandOption("Ranks on each node: a number, or gpu for one per GPU; default: 1."),
    "queue": CommandOption("Queue.", short="-q"),
    "after": CommandOption(
        "Start only after this job has completed; any:JOB (ended), notok:JOB (not completed), singleton.",
        metavar="JOB",
        kind=list[str],
    ),
    "array": CommandOption("One job per index: 0-9, 0-99:5, or 0-99%8 for 8 at once.", short="-a"),
    "time_limit": CommandOption("Stop the job after this time, such as 90s, 15m or 24h.", short="-t"),
    "envs": CommandOption(
        "Environment variable.", _variables, flag="env", short="-e", metavar="NAME=VALUE", kind=list[str]
    ),
    "workdir": CommandOption("Working directory; default: the current one."),
    "checkpoint.dir": CommandOption(
        "Folder of the checkpoints; makes the job preemptible.", _absolute, flag="checkpoint", metavar="DIR"
    ),
    "preemptible": CommandOption(
        "Whether the job may be stopped to make room.", flag="preemptible/--not-preemptible", kind=bool
    ),
    "preemption.grace": CommandOption("Time to save state before the job is killed; default: 30s.", flag="grace"),
    "preemption.min_runtime": CommandOption(
        "Time the job runs before it may be preempted; default: as the manager says.",
        flag="min_runtime",
        metavar="auto|TIME",
    ),
    "resources.type": CommandOption("Only nodes with GPUs of this type, such as a100.", checked_word, flag="gpu_type"),
    "constraints": CommandOption(
        "A feature that the nodes must have (a|b: one of them).",
        flag="constraint",
        short="-C",
        kind=list[str],
    ),
    "output": CommandOption(
        "A file for a copy of the log; %j is the job's number, %a the index.", short="-o", metavar="FILE"
    ),
    "hold": CommandOption("Let the job wait until it is released.", short="-H", kind=bool),
}
# None: the field keeps the value of the job file.
JOB_OPTIONS: Final = {
    path: replace(option, name=path.replace(".", "_"), default=None) for path, option in _DECLARED.items()
}


def set_field(fields: dict[str, Any], path: str, value: Any) -> None:
    """Set a field by its path; add the entries of a mapping to those of the field."""
    part, _, rest = path.partition(".")
    if rest:
        inside = dict(fields.get(part) or {})
        set_field(inside, rest, value)
        fields[part] = inside
    else:
        fields[part] = {**(fields.get(part) or {}), **value} if isinstance(value, dict) else value


def set_fields(fields: dict[str, Any], values: Mapping[str, Any]) -> None:
    """Set the fields of a job file from the values of options, by the names of the options."""
    for path, option in JOB_OPTIONS.items():
        value = option.checked(values.get(option.name))
        if value is not None:
            set_field(fields, path, value)
