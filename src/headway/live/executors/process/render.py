"""An attempt as text: the commands, environments and logs of its ranks. Pure, so that it can be tested and shown."""

from collections.abc import Mapping
from typing import Any

from headway.live.executors import Launch

# What a job inherits from the manager's environment; the rest may hold secrets of whoever runs the manager.
INHERITED = ("PATH", "LANG", "LC_ALL", "TZ", "TMPDIR", "LD_LIBRARY_PATH", "VIRTUAL_ENV", "CONDA_PREFIX", "CUDA_HOME")
MASTER_ADDRESS = "127.0.0.1"


def inherited(environment: Mapping[str, str]) -> dict[str, str]:
    """The part of the manager's environment that jobs get."""
    return {name: environment[name] for name in INHERITED if name in environment}


def render(launch: Launch, folder: str, port: int, base: Mapping[str, str]) -> dict[str, Any]:
    """The ranks of an attempt. Node by node as the job asked for them, GPUs in the order that the placement decided."""
    spec = launch.spec
    per_node = spec.resources.accelerators
    ranks = []
    for group in range(spec.num_nodes):
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
            ranks.append({"argv": list(spec.argv), "env": env, "log": f"rank-{rank}.log"})
    return {"job": launch.job, "attempt": launch.attempt, "ranks": ranks}


def job_environment(launch: Launch, folder: str) -> dict[str, str]:
    """What every rank of an attempt finds in its environment, whoever starts it."""
    spec = launch.spec
    found = {
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
        found |= {"HEADWAY_ARRAY_ID": str(launch.array_id), "HEADWAY_ARRAY_INDEX": str(launch.array_index)}
    return found
