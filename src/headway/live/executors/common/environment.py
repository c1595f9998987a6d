"""The environment of a job's ranks, and the paths of the copies of their logs. All functions but `user_path` are pure."""

import contextlib
import os
import re
from collections.abc import Mapping

from headway.live.executors import Launch

# What a job inherits from the manager's environment; the rest may hold secrets of whoever runs the manager.
OF_THE_MACHINE = ("LANG", "LC_ALL", "TZ", "CUDA_HOME")
OF_THE_USER = ("PATH", "TMPDIR", "LD_LIBRARY_PATH", "VIRTUAL_ENV", "CONDA_PREFIX")
# Where a login finds programs, if the machine does not say so itself (the default of shadow's login for users).
LOGIN_DEFAULTS = "/etc/login.defs"
USER_PATH = "/usr/local/bin:/usr/bin:/bin"
NUMBERS = "jAabtn"  # of the patterns of an output, those that a width pads with zeros


def environment_of(other: object | None, environment: Mapping[str, str]) -> dict[str, str]:
    """The part of the manager's environment that jobs get; a job of another user has that user's PATH, and nothing of the manager's own."""
    names = OF_THE_MACHINE if other else OF_THE_MACHINE + OF_THE_USER
    variables = {name: environment[name] for name in names if name in environment}
    return {**variables, "PATH": user_path()} if other else variables


def user_path(defaults: str = LOGIN_DEFAULTS) -> str:
    """What PATH is after a login, as the machine says (ENV_PATH)."""
    with contextlib.suppress(OSError), open(defaults, encoding="utf-8", errors="replace") as file:
        for line in file:
            words = line.split()
            if len(words) == 2 and words[0] == "ENV_PATH":
                return words[1].removeprefix("PATH=")
    return USER_PATH


def output_path(launch: Launch, rank: int, home: str) -> str | None:
    """Where a copy of a rank's log goes, with the job's numbers and names in place of Slurm's `%j` and the like; None: nowhere."""
    spec = launch.spec
    if spec.output is None:
        return None
    index = launch.array_index or 0
    values = {
        "%": "%",
        "j": str(launch.job),
        "A": str(launch.array_id or launch.job),
        "a": str(index),
        "b": str(index % 10),
        "x": spec.name.replace("/", "-"),
        "u": launch.user,
        "t": str(rank),
        "n": str(rank // spec.tasks),
        "N": launch.nodes[0] if launch.nodes else "",
    }

    def value(match: re.Match[str]) -> str:
        text = values[match[2]]
        return text.zfill(min(10, int(match[1] or 0))) if match[2] in NUMBERS else text

    path = re.sub(r"%(\d{0,2})([%jAabxutnN])", value, spec.output)
    return os.path.join(spec.workdir or home, path)


def job_environment(launch: Launch, folder: str) -> dict[str, str]:
    """What every rank of an attempt finds in its environment, whoever starts it."""
    spec = launch.spec
    variables = {
        "HEADWAY_JOB_ID": str(launch.job),
        "HEADWAY_ATTEMPT": str(launch.attempt),
        "HEADWAY_CHECKPOINT_DIR": spec.checkpoint.dir if spec.checkpoint else "",
        "HEADWAY_API": "",
        "HEADWAY_TOKEN": "",
        "HEADWAY_COLLECTIVE_PLAN": "",
        "HEADWAY_NODES": ",".join(dict.fromkeys(launch.nodes)),
        "HEADWAY_PREEMPTION_SIGNAL": spec.preemption.signal,
        "HEADWAY_RUN": folder,
        **launch.environment,
    }
    if launch.array_id is not None:
        variables |= {"HEADWAY_ARRAY_ID": str(launch.array_id), "HEADWAY_ARRAY_INDEX": str(launch.array_index)}
    return variables


def rank_environment(launch: Launch, rank: int, address: str, port: int) -> dict[str, str]:
    """Return what one rank finds beside `job_environment`, by torchrun's names; CUDA counts the GPUs as `Launch.gpus` does."""
    spec, per_node = launch.spec, launch.spec.resources.accelerators
    group, local = divmod(rank, spec.tasks)
    return {
        "MASTER_ADDR": address,
        "MASTER_PORT": str(port),
        "RANK": str(rank),
        "LOCAL_RANK": str(local),
        "WORLD_SIZE": str(spec.ranks),
        "LOCAL_WORLD_SIZE": str(spec.tasks),
        "GROUP_RANK": str(group),
        "CUDA_VISIBLE_DEVICES": ",".join(map(str, launch.gpus[group * per_node : (group + 1) * per_node])),
    }
