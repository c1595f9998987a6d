"""An attempt as text: the commands, environments and logs of its ranks. `render` is pure, so that it can be tested and shown."""

import contextlib
import os
import re
from collections.abc import Mapping
from typing import Any

from headway.live.executors import Launch

# What a job inherits from the manager's environment; the rest may hold secrets of whoever runs the manager.
OF_THE_MACHINE = ("LANG", "LC_ALL", "TZ", "CUDA_HOME")
OF_THE_USER = ("PATH", "TMPDIR", "LD_LIBRARY_PATH", "VIRTUAL_ENV", "CONDA_PREFIX")
# Where a login finds programs, if the machine does not say so itself (the default of shadow's login for users).
LOGIN_DEFAULTS = "/etc/login.defs"
USER_PATH = "/usr/local/bin:/usr/bin:/bin"
MASTER_ADDRESS = "127.0.0.1"
NUMBERS = "jAabtn"  # of the patterns of an output, those that a width pads with zeros
HOOK_TIMEOUT_S = 60.0  # a prolog or an epilog that takes longer is killed, and counts as failed


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


def render(launch: Launch, folder: str, port: int, base: Mapping[str, str]) -> dict[str, Any]:
    """The ranks of an attempt. Node by node as the job asked for them, GPUs in the order that the placement decided."""
    spec = launch.spec
    per_node = spec.resources.accelerators
    ranks = []
    for group in range(spec.groups):
        gpus = launch.gpus[group * per_node : (group + 1) * per_node]
        for local in range(spec.tasks):
            rank = group * spec.tasks + local
            own = {
                "MASTER_ADDR": MASTER_ADDRESS,
                "MASTER_PORT": str(port),
                "RANK": str(rank),
                "LOCAL_RANK": str(local),
                "WORLD_SIZE": str(spec.ranks),
                "LOCAL_WORLD_SIZE": str(spec.tasks),
                "GROUP_RANK": str(group),
                "CUDA_VISIBLE_DEVICES": ",".join(map(str, gpus)),
            }
            env = {**base, **spec.envs, **job_environment(launch, folder), **own}
            output = output_path(launch, rank, base.get("HOME", "/"))
            ranks.append({"argv": list(spec.argv), "env": env, "log": f"rank-{rank}.log", "output": output})
    return {"job": launch.job, "attempt": launch.attempt, "ranks": ranks}


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


def hooks_of(launch: Launch, folder: str, path: str) -> dict[str, Any]:
    """The operator's programs around an attempt, and what they are told of it."""
    if not (launch.prolog or launch.epilog):
        return {}
    env = {"PATH": path, "HEADWAY_USER": launch.user, "HEADWAY_JOB_NAME": launch.spec.name}
    env |= {"HEADWAY_JOB_ID": str(launch.job), "HEADWAY_ATTEMPT": str(launch.attempt), "HEADWAY_RUN": folder}
    env |= {"HEADWAY_NODES": ",".join(dict.fromkeys(launch.nodes)), "HEADWAY_GPUS": ",".join(map(str, launch.gpus))}
    if "certificate.json" in launch.files:  # a slice of a fabric: what puts its routes in force, and takes them back
        files = {"HEADWAY_CERTIFICATE": "certificate.json", "HEADWAY_ROUTES": "routes.sh"}
        files |= {"HEADWAY_ROUTES_UNDO": "routes-undo.sh"}
        env |= {name: os.path.join(folder, file) for name, file in files.items()}
    return {"prolog": launch.prolog, "epilog": launch.epilog, "timeout_s": HOOK_TIMEOUT_S, "env": env}


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
