"""An attempt as text: the commands, environments and logs of its ranks. `render` is pure, so that it can be tested and shown."""

import os
from collections.abc import Mapping
from typing import Any

from headway.live.executors import Launch
from headway.live.executors.common.environment import job_environment, output_path, rank_environment

MASTER_ADDRESS = "127.0.0.1"
HOOK_TIMEOUT_S = 60.0  # a prolog or an epilog that takes longer is killed, and counts as failed


def render(launch: Launch, folder: str, port: int, base: Mapping[str, str]) -> dict[str, Any]:
    """The ranks of an attempt. Node by node as the job asked for them, GPUs in the order that the placement decided."""
    ranks = []
    for rank in range(launch.spec.ranks):
        own = rank_environment(launch, rank, MASTER_ADDRESS, port)
        env = {**base, **launch.spec.envs, **job_environment(launch, folder), **own}
        output = output_path(launch, rank, base.get("HOME", "/"))
        ranks.append({"argv": list(launch.spec.argv), "env": env, "log": f"rank-{rank}.log", "output": output})
    return {"job": launch.job, "attempt": launch.attempt, "ranks": ranks}


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
