"""Batch scripts: the `#SBATCH` lines of a script become the fields of a job.

Only the lines before the first command count, as in Slurm. An option without an effect here (accounts, mail) is named in the notes. An
option that would change how the job runs, and cannot be obeyed, is refused by name.
"""

import contextlib
import re
import shlex
import signal
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from headway.errors import BadInput, unknown
from headway.io.files import read_file
from headway.io.numbers import JOB_NUMBER, plain_whole
from headway.io.units import counted
from headway.live.jobfile.after import ANY, NOTOK, OK, SINGLETON
from headway.live.jobfile.sbatch_options import FLAGS, REFUSED, SHORT, VARIABLES, WITHOUT_EFFECT

# The API takes requests of at most 1 MiB, the script included.
MOST_SCRIPT_BYTES = 1 << 20
SHELLS = {"sh", "bash", "dash", "zsh", "ksh"}


@dataclass(slots=True)
class Script:
    """The fields of a job file, and notes on options without an effect."""

    fields: dict[str, Any]
    notes: list[str] = field(default_factory=list)


def read_script(path: Path, arguments: tuple[str, ...] = ()) -> Script:
    """Return the job of a script. It contains the text of the script, so later edits of the file do not change it."""
    try:
        text = read_file(path, MOST_SCRIPT_BYTES).decode("utf-8")
    except (OSError, ValueError) as error:
        raise BadInput(f"{path}: cannot be read: {getattr(error, 'strerror', None) or error}") from None
    if "\0" in text:
        raise BadInput(f"{path}: holds a NUL byte: a script is text")
    shell = _interpreter(path, text)
    name = re.sub(r"[^A-Za-z0-9._-]", "-", path.stem)[:64] or "script"
    script = Script({"name": name, "command": [*shell, "-c", text, path.name, *arguments]})
    begun = False  # lines after the first command do not count
    for number, line in enumerate(text.splitlines(), 1):
        if line.startswith("#SBATCH") and begun:
            script.notes.append(
                f"{path}, line {number}: {line[:80]!r} comes after the first command: it has no effect, as in Slurm"
            )
        elif line.startswith("#SBATCH"):
            for option, value in _options(line[len("#SBATCH") :], f"{path}, line {number}"):
                _apply(script, option, value, f"{path}, line {number}")
        elif line.strip() and not line.startswith("#"):
            begun = True
    _settle(script.fields, path)
    if re.search(r"^\s*(?:exec\s+)?srun\b", text, re.MULTILINE):
        instead = "every rank runs the whole script (--ntasks-per-node ranks on each node)"
        script.notes.append(f"{path}: there is no srun here: {instead}")
    code = "\n".join(line for line in text.splitlines() if not line.lstrip().startswith("#"))
    for name in dict.fromkeys(re.findall(r"\$\{?(SLURM_\w+)", code)):
        if not re.search(rf"\b{name}=", code):
            instead = f": use {VARIABLES[name]}" if name in VARIABLES else ""
            script.notes.append(f"{path}: ${name} is empty here{instead}")
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
    """Return the options of one line: `--name=value`, `--name value`, `-n value`, `-nvalue`; a comment ends it."""
    try:
        words = shlex.split(text, comments=True)
    except ValueError as error:
        raise BadInput(
            f"{where}: {text.strip()!r} is not a list of options ({error}): close every quotation mark"
        ) from None
    options: list[tuple[str, str]] = []
    while words:
        word = words.pop(0)
        if word.startswith("--"):
            option, equals, value = word[2:].partition("=")
        elif word[:2] in SHORT:
            option, equals, value = SHORT[word[:2]], word[2:], word[2:].removeprefix("=")
            if equals and option in FLAGS and option != "no-kill":  # several in one word, such as -QH
                words.insert(0, f"-{equals}")
        elif word in ("hetjob", "packjob", ":"):
            raise BadInput(f"{where}: {word}: the nodes of a job are alike here: submit the parts as jobs of their own")
        else:
            raise BadInput(f"{where}: {word!r} is not an option: write --name=value")
        if not equals and option not in FLAGS:
            if not words and option in OPTIONS:  # unknown options are refused as such
                raise BadInput(f"{where}: --{option} needs a value")
            value = words.pop(0) if words else ""
        options.append((option, value))
    return options


def _apply(script: Script, option: str, value: str, where: str) -> None:
    """Write one option into the fields of the job."""
    if option in WITHOUT_EFFECT:
        script.notes.append(f"{where}: --{option} has no effect here: {WITHOUT_EFFECT[option]}")
    elif option in REFUSED:
        raise BadInput(f"{where}: --{option}: {REFUSED[option]}")
    elif option == "export":
        _export(script, value, where)
    elif option in FIELDS:
        name, read = FIELDS[option]
        read_value = read(value, f"{where}: --{option}")
        if isinstance(read_value, Typed):
            _set_type(script.fields, read_value.type, f"{where}: --{option}")
            read_value = read_value.count
        script.fields[name] = read_value
        if option == "signal" and value.startswith("B:"):
            script.notes.append(
                f"{where}: --signal={value}: here the signal goes to every process, not to the shell alone"
            )
    else:
        raise BadInput(f"{where}: {unknown('option', option, OPTIONS)}")


def _export(script: Script, value: str, where: str) -> None:
    """Apply `ALL`, `NONE` or `NAME=value,...`. A job never inherits the environment of the submitting shell."""
    for part in value.split(","):
        name, equals, content = part.partition("=")
        if equals:
            script.fields.setdefault("envs", {})[name] = content
        elif part in {"ALL", "NONE", "NIL"}:
            script.notes.append(f"{where}: --export={part} has no effect here: jobs get PATH, a few others and envs")
        else:
            raise BadInput(f"{where}: --export={part}: write its value too, {part}=VALUE")


def _whole(value: str, where: str) -> int:
    number = plain_whole(value)
    if number is None:
        raise BadInput(f"{where}: {value[:80]!r} is not a whole number")
    return number


def _count(value: str, where: str) -> int:
    number = _whole(value, where)
    if number == 0:
        raise BadInput(f"{where}: 0 is too few: write a whole number of at least 1, or leave the option out")
    return number


def _time_limit(value: str, where: str) -> str:
    limit_s = time_limit_s(value, where)
    if limit_s == 0:
        raise BadInput(f"{where}: {value} is no time limit here: leave the option out")
    return f"{limit_s:g}s"


def time_limit_s(value: str, where: str) -> float:
    """Return the seconds of minutes, minutes:seconds, hours:minutes:seconds, or days-hours[:minutes[:seconds]]."""
    if not re.fullmatch(r"(\d{1,9}-)?\d{1,9}(:\d{1,9}){0,2}", value, re.ASCII):
        raise BadInput(f"{where}: {value!r} is not a time: write minutes, h:m:s, or days-hours")
    days, dash, rest = value.rpartition("-")
    numbers = [int(part) for part in rest.split(":")]
    if not dash and len(numbers) < 3:
        numbers.insert(0, 0)  # it begins with minutes
    hours, minutes, seconds = numbers + [0] * (3 - len(numbers))
    return int(days or 0) * 86_400.0 + hours * 3600 + minutes * 60 + seconds


def memory_gb(value: str, where: str) -> float:
    """Return Slurm's memory of a node in GB; without a unit the value is in megabytes."""
    match = re.fullmatch(r"(\d{1,15})([KMGT]?)B?", value, re.ASCII | re.IGNORECASE)
    if not match:
        raise BadInput(f"{where}: {value!r} is not a size of memory: write 64G or 64000M")
    scale = {"K": 2**10, "M": 2**20, "": 2**20, "G": 2**30, "T": 2**40}[match[2].upper()]
    return int(match[1]) * scale / 1e9


def _after(value: str, where: str) -> list[int | str]:
    """Return the dependencies of `afterok:1:2,afterany:3,singleton`: the job waits for all."""
    needs: list[int | str] = []
    for part in value.split(","):
        kind, *numbers = part.split(":")
        if part == SINGLETON:
            needs.append(part)
        elif kind in KINDS and numbers and all(re.fullmatch(JOB_NUMBER, number) for number in numbers):
            needs += [int(number) if KINDS[kind] == OK else f"{KINDS[kind]}:{number}" for number in numbers]
        else:
            known = "afterok:JOB[:JOB...], afterany, afternotok or singleton, several with commas"
            raise BadInput(f"{where}={part} is not known here: write {known}")
    return needs


KINDS = {"afterok": OK, "afterany": ANY, "afternotok": NOTOK}


def _features(value: str, where: str) -> list[str]:
    """Return the features of `ib&nvlink` (both), `ib|roce` (one of them) or `nvlink&(ib|roce)`. Slurm's counts and brackets are refused."""
    parts = [value] if re.fullmatch(r"[A-Za-z0-9_.:+|-]+", value) else re.split(r"[&,]", value)
    word, one_of = r"[A-Za-z0-9_.:+-]+", r"\(WORD(?:\|WORD)*\)"
    kinds = re.compile(f"{word}|{one_of.replace('WORD', word)}" + (rf"|{word}(?:\|{word})*" if len(parts) == 1 else ""))
    if not all(kinds.fullmatch(part) for part in parts):
        such = "a&b for both, a|b for one of them, or a&(b|c)"
        raise BadInput(f"{where}={value} is not known here: write {such}")
    return [part.strip("()") for part in parts]


def _signal(value: str, where: str) -> dict[str, Any]:
    """Return the preemption signal and grace of `[B:]SIGNAL[@seconds]`."""
    name, _, lead = value.removeprefix("B:").partition("@")
    with contextlib.suppress(ValueError):
        name = signal.Signals(int(name)).name
    fields: dict[str, Any] = {"signal": name if name.startswith("SIG") else f"SIG{name}"}
    return {**fields, **({"grace": f"{_whole(lead, where)}s"} if lead else {})}


@dataclass(frozen=True, slots=True)
class Typed:
    """A number of GPUs of one type (empty: any)."""

    count: int
    type: str


def _gpus(value: str, where: str) -> Typed:
    """Return the GPUs of `4` or `a100:4`."""
    kind, _, count = value.rpartition(":")
    return Typed(_count(count, where), kind)


def _gres(value: str, where: str) -> Typed:
    """Return the GPUs of `gpu`, `gpu:4`, `gpu:a100` or `gpu:a100:4`."""
    kind, *rest = value.split(":")
    if kind != "gpu" or len(rest) > 2:
        raise BadInput(f"{where}={value}: only gpu is known here, such as --gres=gpu:4 or --gres=gpu:a100:4")
    count = _count(rest.pop(), where) if rest and rest[-1].isdigit() else 1
    return Typed(count, ":".join(rest))


def _set_type(fields: dict[str, Any], kind: str, where: str) -> None:
    """Set the type of GPUs; refuse a second, different type."""
    if kind and fields.setdefault("type", kind) != kind:
        raise BadInput(f"{where}: the job asks for GPUs of type {fields['type']} and of type {kind}: leave one out")


def _text(value: str, where: str) -> str:
    return value


# The field that an option sets, and the function that reads its value. `_settle` turns fields that no job file has into others.
FIELDS: dict[str, tuple[str, Callable[[str, str], Any]]] = {
    "job-name": ("name", _text),
    "nodes": ("num_nodes", _count),
    "ntasks": ("ntasks", _count),
    "ntasks-per-node": ("tasks_per_node", _count),
    "cpus-per-task": ("cpus", _whole),
    "mem": ("memory", memory_gb),
    "time": ("time_limit", _time_limit),
    "partition": ("queue", _text),
    "array": ("array", _text),
    "dependency": ("after", _after),
    "constraint": ("constraints", _features),
    "output": ("output", _text),
    "hold": ("hold", lambda value, where: True),
    "cpus-per-gpu": ("cpus-per-gpu", _whole),
    "mem-per-cpu": ("mem-per-cpu", memory_gb),
    "mem-per-gpu": ("mem-per-gpu", memory_gb),
    "ntasks-per-gpu": ("ntasks-per-gpu", _count),
    "chdir": ("workdir", _text),
    "signal": ("preemption", _signal),
    "no-requeue": ("retry", lambda value, where: {"on": [], "max": 0}),
    "gpus": ("gpus", _gpus),
    "gpus-per-node": ("gpus-per-node", _gpus),
    "gpus-per-task": ("gpus-per-task", _gpus),
    "gres": ("gres", _gres),
}
OPTIONS = {*FIELDS, *WITHOUT_EFFECT, *REFUSED, "export"}


def _settle(fields: dict[str, Any], path: Path) -> None:
    """Turn totals and numbers per GPU or task into `num_nodes`, `tasks_per_node` and the resources of a node."""
    _settle_nodes(fields, path)
    nodes = max(1, fields.get("num_nodes", 1))
    for total, per_node in (("ntasks", "tasks_per_node"), ("gpus", "gpus")):
        count = fields.pop(total, None)
        if count is not None and per_node not in fields:
            if count % nodes:
                raise BadInput(f"{path}: --{total}={count} does not divide over {nodes} nodes: give --{total}-per-node")
            fields[per_node] = count // nodes
    _settle_gpus(fields, path)
    gpus = fields.get("accelerators", 1)
    if "ntasks-per-gpu" in fields:
        _once(fields, "tasks_per_node", fields.pop("ntasks-per-gpu") * gpus, f"{path}: --ntasks-per-gpu")
    tasks = fields.get("tasks_per_node", 1)
    if "cpus" in fields:  # of a task; a job's resources are those of a node
        fields["cpus"] *= tasks
    if "cpus-per-gpu" in fields:
        _once(fields, "cpus", fields.pop("cpus-per-gpu") * gpus, f"{path}: --cpus-per-gpu")
    for name, count in (("mem-per-cpu", fields.get("cpus", tasks)), ("mem-per-gpu", gpus)):
        if name in fields:
            _once(fields, "memory", fields.pop(name) * count, f"{path}: --{name}")
    names = ("cpus", "memory", "accelerators", "type")
    resources = {name: fields.pop(name) for name in names if name in fields}
    if resources:
        fields["resources"] = resources


def _settle_nodes(fields: dict[str, Any], path: Path) -> None:
    """Set `num_nodes` from --ntasks and --ntasks-per-node if both are given."""
    if "ntasks" not in fields or "tasks_per_node" not in fields:
        return
    total, each = fields.pop("ntasks"), fields["tasks_per_node"]
    nodes = fields.setdefault("num_nodes", max(1, total // max(1, each)))
    if nodes * each != total:
        product = f"{counted(nodes, 'node')} with --ntasks-per-node={each} make{'s' * (nodes == 1)} {nodes * each}"
        raise BadInput(f"{path}: --ntasks={total}, but {product}: leave one of them out")


def _settle_gpus(fields: dict[str, Any], path: Path) -> None:
    """Set `accelerators`, the GPUs of a node, from any of the four options for GPUs."""
    if "gpus-per-task" in fields:
        fields["gpus-per-task"] *= fields.get("tasks_per_node", 1)
    asked = {name: fields.pop(name) for name in ("gpus", "gpus-per-node", "gpus-per-task", "gres") if name in fields}
    if len(set(asked.values())) > 1:
        raise BadInput(f"{path}: GPUs are asked for in two ways that differ: {', '.join(asked)}")
    if asked:
        fields["accelerators"] = next(iter(asked.values()))
    if {"gpus-per-node", "gres"} & asked.keys():
        fields.setdefault("num_nodes", 1)  # as in Slurm; --gpus alone leaves the nodes to the placement


def _once(fields: dict[str, Any], name: str, value: float, where: str) -> None:
    """Set a field that no other option has set."""
    if name in fields:
        raise BadInput(f"{where}: {name} is asked for in another way too: leave one out")
    fields[name] = value
