"""An attempt as text: the commands, environments and logs of its ranks. `render` is pure, so that it can be tested and shown."""

import os
from collections.abc import Mapping
from typing import Any

from headway.live.executors import Launch
from headway.live.executors.common.environment import output_path, rank_environment

MASTER_ADDRESS = "127.0.0.1"
HOOK_TIMEOUT_S = 60.0  # a prolog or an epilog that takes longer is killed, and counts as failed


def render(launch: Launch, folder: str, port: int, base: Mapping[str, str]) -> dict[str, Any]:
    """Return the ranks of an attempt, node by node, with their GPUs in the order of the placement."""
    ranks = []
    for rank in range(launch.spec.ranks):
        env = {**base, **rank_environment(launch, rank, folder, MASTER_ADDRESS, port)}
        output = output_path(launch, rank, base.get("HOME", "/"))
        ranks.append({"argv": list(launch.spec.argv), "env": env, "log": f"rank-{rank}.log", "output": output})
    return {"job": launch.job, "attempt": launch.attempt, "ranks": ranks}


def hooks_of(launch: Launch, folder: str, path: str) -> dict[str, Any]:
    """Return the prolog and epilog of an attempt with their variables; empty if it has neither."""
    if not (launch.prolog or launch.epilog):
        return {}
    env = {"PATH": path, "HEADWAY_USER": launch.user, "HEADWAY_JOB_NAME": launch.spec.name}
    env |= {"HEADWAY_JOB_ID": str(launch.job), "HEADWAY_ATTEMPT": str(launch.attempt), "HEADWAY_RUN": folder}
    env |= {"HEADWAY_NODES": ",".join(dict.fromkeys(launch.nodes)), "HEADWAY_GPUS": ",".join(map(str, launch.gpus))}
    if "certificate.json" in launch.files:  # a slice of a fabric: scripts that set and remove its routes
        files = {"HEADWAY_CERTIFICATE": "certificate.json", "HEADWAY_ROUTES": "routes.sh"}
        files |= {"HEADWAY_ROUTES_UNDO": "routes-undo.sh"}
        env |= {name: os.path.join(folder, file) for name, file in files.items()}
    return {"prolog": launch.prolog, "epilog": launch.epilog, "timeout_s": HOOK_TIMEOUT_S, "env": env}
