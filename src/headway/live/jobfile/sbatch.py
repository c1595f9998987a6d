"""Batch scripts as people have them: the `#SBATCH` lines of a script, read as the fields of a job.

Only the lines before the first command count, as in Slurm. An option that has a meaning here is used; one that has none (accounts, mail,
output files) is named in the notes, so that nothing is dropped silently; one that would change how the job runs is refused by name.
"""

import re
import shlex
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from headway.errors import BadInput, unknown

SHORT = {
    "-J": "job-name", "-N": "nodes", "-n": "ntasks", "-c": "cpus-per-task", "-t": "time", "-p": "partition", "-a": "array",
    "-d": "dependency", "-D": "chdir", "-G": "gpus", "-o": "output", "-e": "error", "-A": "account", "-q": "qos",
    "-x": "exclude", "-w": "nodelist", "-C": "constraint",
}  # fmt: skip
# Options that change nothing here: Headway keeps logs itself, has no accounts, and requeues by its own rules.
WITHOUT_EFFECT = {
    "output", "error", "account", "qos", "mail-type", "mail-user", "comment", "open-mode", "wckey",
    "requeue", "hint", "nice", "verbose", "quiet", "parsable", "threads-per-core",
}  # fmt: skip
# Options that would change how the job runs, and cannot be obeyed here yet.
REFUSED = {
    "exclusive": "jobs share nodes here: ask for all GPUs of a node instead",
    "exclude": "nodes cannot be chosen here: leave it out",
    "nodelist": "nodes cannot be chosen here: leave it out",
    "constraint": "nodes have no features here: leave it out",
}
FLAGS = {"exclusive", "no-requeue", "requeue", "verbose", "quiet", "parsable"}
SHELLS = {"sh", "bash", "dash", "zsh", "ksh"}


@dataclass(slots=True)
class Script:
    """What a script asks for: the fields of a job file, and notes on what has no effect."""

    fields: dict[str, Any]
    notes: list[str] = field(default_factory=list)


def read_script(path: Path, arguments: tuple[str, ...] = ()) -> Script:
    """Read a script as a job. Its text is kept with the job: later edits of the file change nothing."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise BadInput(f"{path}: cannot be read: {getattr(error, 'strerror', None) or error}") from None
    if "\0" in text:
        raise BadInput(f"{path}: holds a NUL byte: a script is text")
    shell = _interpreter(path, text)
    name = re.sub(r"[^A-Za-z0-9._-]", "-", path.stem)[:64] or "script"
    script = Script({"name": name, "command": [*shell, "-c", text, path.name, *arguments]})
    for number, line in enumerate(text.splitlines(), 1):
        if line.startswith("#SBATCH"):
            for option, value in _options(line[len("#SBATCH") :], f"{path}, line {number}"):
                _apply(script, option, value, f"{path}, line {number}")
        elif line.strip() and not line.startswith("#"):
            break
    _settle(script.fields, path)
    if re.search(r"^\s*(?:exec\s+)?srun\b", text, re.MULTILINE):
        instead = "every rank runs the whole script (--ntasks-per-node ranks on each node)"
        script.notes.append(f"{path}: there is no srun here: {instead}")
    return script


def _interpreter(path: Path, text: str) -> list[str]:
    first = text.split("\n", 1)[0]
    if not first.startswith("#!"):
        raise BadInput(f"{path}, line 1: a batch script begins with its shell, such as #!/bin/bash")
    words = shlex.split(first[2:])
    if not words or Path(words[-1] if words[0].endswith("/env") else words[0]).name not in SHELLS:
        raise BadInput(f"{path}, line 1: {first!r} is not a shell; submit other programs as: headway submit -- PROGRAM")
    return words


def _options(text: str, where: str) -> list[tuple[str, str]]:
    """The options of one line: `--name=value`, `--name value`, `-n value`, `-nvalue`; a comment ends it."""
    try:
        words = shlex.split(text, comments=True)
    except ValueError as error:
        raise BadInput(f"{where}: {error}") from None
    found: list[tuple[str, str]] = []
    while words:
        word = words.pop(0)
        if word.startswith("--"):
            option, equals, value = word[2:].partition("=")
        elif word[:2] in SHORT:
            option, equals, value = SHORT[word[:2]], word[2:], word[2:].removeprefix("=")
        else:
            raise BadInput(f"{where}: {word!r} is not an option: write --name=value")
        if not equals and option not in FLAGS:
            if not words:
                raise BadInput(f"{where}: --{option} needs a value")
            value = words.pop(0)
        found.append((option, value))
    return found


def _apply(script: Script, option: str, value: str, where: str) -> None:
    """Write one option into the fields of the job."""
    if option in WITHOUT_EFFECT:
        script.notes.append(f"{where}: --{option} has no effect here")
    elif option in REFUSED:
        raise BadInput(f"{where}: --{option}: {REFUSED[option]}")
    elif option == "export":
        _export(script, value, where)
    elif option in FIELDS:
        name, read = FIELDS[option]
        script.fields[name] = read(value, where)
    else:
        raise BadInput(f"{where}: {unknown('option', option, {*FIELDS, *WITHOUT_EFFECT, *REFUSED, 'export'})}")


def _export(script: Script, value: str, where: str) -> None:
    """`ALL`, `NONE` or `NAME=value,...`; what a job gets of the submitting shell's environment is fixed here."""
    for part in value.split(","):
        name, equals, content = part.partition("=")
        if equals:
            script.fields.setdefault("envs", {})[name] = content
        elif part in {"ALL", "NONE", "NIL"}:
            script.notes.append(f"{where}: --export={part} has no effect here: jobs get PATH, a few others and envs")
        else:
            raise BadInput(f"{where}: --export={part}: write its value too, {part}=VALUE")


def _whole(value: str, where: str) -> int:
    if not value.isascii() or not value.isdigit():
        raise BadInput(f"{where}: {value!r} is not a whole number")
    return int(value)


def time_limit_s(value: str, where: str) -> float:
    """Slurm's times: minutes, minutes:seconds, hours:minutes:seconds, days-hours[:minutes[:seconds]]."""
    if not re.fullmatch(r"(\d+-)?\d+(:\d+){0,2}", value, re.ASCII):
        raise BadInput(f"{where}: {value!r} is not a time: write minutes, h:m:s, or days-hours")
    days, dash, rest = value.rpartition("-")
    numbers = [int(part) for part in rest.split(":")]
    if not dash and len(numbers) < 3:
        numbers.insert(0, 0)  # it begins with minutes
    hours, minutes, seconds = numbers + [0] * (3 - len(numbers))
    return int(days or 0) * 86_400.0 + hours * 3600 + minutes * 60 + seconds


def memory_gb(value: str, where: str) -> float:
    """Slurm's memory of a node in GB; without a unit it counts megabytes."""
    found = re.fullmatch(r"(\d+)([KMGT]?)B?", value, re.ASCII | re.IGNORECASE)
    if not found:
        raise BadInput(f"{where}: {value!r} is not a size of memory: write 64G or 64000M")
    scale = {"K": 2**10, "M": 2**20, "": 2**20, "G": 2**30, "T": 2**40}[found[2].upper()]
    return int(found[1]) * scale / 1e9


def _after(value: str, where: str) -> list[int]:
    found = re.fullmatch(r"after(ok|any)?:(\d+(?::\d+)*)", value, re.ASCII)
    if not found:
        raise BadInput(f"{where}: --dependency={value} is not known here: write afterok:JOB[:JOB...]")
    return [int(part) for part in found[2].split(":")]


def _signal(value: str, where: str) -> dict[str, Any]:
    """`[B:]SIGNAL[@seconds]`: the warning that a job gets before it loses its GPUs."""
    name, _, lead = value.removeprefix("B:").partition("@")
    fields: dict[str, Any] = {"signal": name if name.startswith("SIG") else f"SIG{name}"}
    return {**fields, **({"grace": f"{_whole(lead, where)}s"} if lead else {})}


def _gpus(value: str, where: str) -> int:
    """`4` or `a100:4`."""
    return _whole(value.rpartition(":")[2], where)


def _gres(value: str, where: str) -> int:
    """`gpu`, `gpu:4`, `gpu:a100` or `gpu:a100:4`."""
    kind, *rest = value.split(":")
    if kind != "gpu":
        raise BadInput(f"{where}: --gres={value}: only gpu is known here, such as --gres=gpu:4")
    return _whole(rest[-1], where) if rest and rest[-1].isdigit() else 1


def _text(value: str, where: str) -> str:
    return value


# What an option sets, and how its value is read. Most are fields of a job file; `_settle` makes such of the rest.
FIELDS: dict[str, tuple[str, Callable[[str, str], Any]]] = {
    "job-name": ("name", _text),
    "nodes": ("num_nodes", _whole),
    "ntasks": ("ntasks", _whole),
    "ntasks-per-node": ("tasks_per_node", _whole),
    "cpus-per-task": ("cpus", _whole),
    "mem": ("memory", memory_gb),
    "time": ("time_limit", lambda value, where: f"{time_limit_s(value, where):g}s"),
    "partition": ("queue", _text),
    "array": ("array", _text),
    "dependency": ("after", _after),
    "chdir": ("workdir", _text),
    "signal": ("preemption", _signal),
    "no-requeue": ("retry", lambda value, where: {"on": [], "max": 0}),
    "gpus": ("gpus", _gpus),
    "gpus-per-node": ("gpus-per-node", _gpus),
    "gpus-per-task": ("gpus-per-task", _gpus),
    "gres": ("gres", _gres),
}


def _settle(fields: dict[str, Any], path: Path) -> None:
    """Turn totals into numbers per node, and work out the resources of a node, whichever way they were asked for."""
    nodes = max(1, fields.get("num_nodes", 1))
    for total, per_node in (("ntasks", "tasks_per_node"), ("gpus", "gpus")):
        count = fields.pop(total, None)
        if count is not None and per_node not in fields:
            if count % nodes:
                raise BadInput(f"{path}: --{total}={count} does not divide over {nodes} nodes: give --{total}-per-node")
            fields[per_node] = count // nodes
    tasks = fields.get("tasks_per_node", 1)
    for name in ("cpus", "gpus-per-task"):  # of a task; a job's resources are those of a node
        if name in fields:
            fields[name] *= tasks
    asked = {name: fields.pop(name) for name in ("gpus", "gpus-per-node", "gpus-per-task", "gres") if name in fields}
    if len(set(asked.values())) > 1:
        raise BadInput(f"{path}: GPUs are asked for in two ways that differ: {', '.join(asked)}")
    resources: dict[str, Any] = {name: fields.pop(name) for name in ("cpus", "memory") if name in fields}
    if asked:
        resources["accelerators"] = next(iter(asked.values()))
    if resources:
        fields["resources"] = resources
