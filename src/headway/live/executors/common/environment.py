"""The environment of a job's ranks, and the paths of the copies of their logs."""

import contextlib
import os
import pwd
import re
import socket
from collections.abc import Mapping

from headway.io.accounts import own_account
from headway.live.executors import Launch

# A job inherits only these from the manager's environment: other variables may hold secrets of the manager's user.
OF_THE_MACHINE = ("LANG", "LC_ALL", "TZ", "CUDA_HOME")
OF_THE_USER = ("PATH", "TMPDIR", "LD_LIBRARY_PATH", "VIRTUAL_ENV", "CONDA_PREFIX")
# PATH of a login if LOGIN_DEFAULTS sets none (the default of shadow's login for users).
LOGIN_DEFAULTS = "/etc/login.defs"
USER_PATH = "/usr/local/bin:/usr/bin:/bin"
NUMBERS = "jAabtn"  # patterns of `output` that a width pads with zeros


def user_environment(account: pwd.struct_passwd | None) -> dict[str, str]:
    """Return the variables of a job's user: HOME, SHELL and the like, and the safe part of the manager's variables.

    `account` is the account of another user (`common/account.py`); None: the manager's own.
    """
    home, name, shell = (account.pw_dir, account.pw_name, account.pw_shell) if account else own_account()
    return environment_of(account, os.environ) | {"HOME": home, "USER": name, "LOGNAME": name, "SHELL": shell}


def environment_of(other: object | None, environment: Mapping[str, str]) -> dict[str, str]:
    """Return the safe part of the manager's variables; a job of another user has the PATH of a login instead of the manager's."""
    names = OF_THE_MACHINE if other else OF_THE_MACHINE + OF_THE_USER
    variables = {name: environment[name] for name in names if name in environment}
    return {**variables, "PATH": user_path()} if other else variables


def user_path(defaults: str = LOGIN_DEFAULTS) -> str:
    """Return PATH as the machine sets it at a login (ENV_PATH)."""
    with contextlib.suppress(OSError), open(defaults, encoding="utf-8", errors="replace") as file:
        for line in file:
            words = line.split()
            if len(words) == 2 and words[0] == "ENV_PATH":
                return words[1].removeprefix("PATH=")
    return USER_PATH


def output_path(launch: Launch, rank: int, home: str) -> str | None:
    """Return the path of the copy of a rank's log, with `%j` and the like of Slurm replaced; None: the job asks for no copy."""
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
    """Return the variables that all ranks share: of the job file, of Headway, and of the manager for this attempt."""
    spec = launch.spec
    variables = {
        **spec.envs,
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


def rank_environment(launch: Launch, rank: int, folder: str, address: str, port: int) -> dict[str, str]:
    """Return the variables of one rank: `job_environment`, and its place among the ranks by torchrun's names.

    All ranks meet at `address` (of the node of rank 0) and `port`. CUDA_VISIBLE_DEVICES has the numbers of `Launch.gpus`.
    """
    spec, per_node = launch.spec, launch.spec.resources.accelerators
    group, local = divmod(rank, spec.tasks)
    return {
        **job_environment(launch, folder),
        "MASTER_ADDR": address,
        "MASTER_PORT": str(port),
        "RANK": str(rank),
        "LOCAL_RANK": str(local),
        "WORLD_SIZE": str(spec.ranks),
        "LOCAL_WORLD_SIZE": str(spec.tasks),
        "GROUP_RANK": str(group),
        "CUDA_VISIBLE_DEVICES": ",".join(map(str, launch.gpus[group * per_node : (group + 1) * per_node])),
    }


def hook_environment(launch: Launch, folder: str) -> dict[str, str]:
    """Return the variables of a prolog or epilog. None comes from the job file: these programs have the manager's rights."""
    variables = {
        "PATH": os.environ.get("PATH", USER_PATH),
        "HEADWAY_USER": launch.user,
        "HEADWAY_JOB_NAME": launch.spec.name,
        "HEADWAY_JOB_ID": str(launch.job),
        "HEADWAY_ATTEMPT": str(launch.attempt),
        "HEADWAY_RUN": folder,
        "HEADWAY_NODES": ",".join(dict.fromkeys(launch.nodes)),
        "HEADWAY_GPUS": ",".join(map(str, launch.gpus)),
    }
    if "certificate.json" in launch.files:  # a slice of a fabric: scripts that set and remove its routes
        files = {"CERTIFICATE": "certificate.json", "ROUTES": "routes.sh", "ROUTES_UNDO": "routes-undo.sh"}
        variables |= {f"HEADWAY_{name}": os.path.join(folder, file) for name, file in files.items()}
    return variables


def free_port() -> int:
    """Return a TCP port of this machine that no process uses."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
