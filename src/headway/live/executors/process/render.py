"""An attempt as text: the commands, environments and logs of its ranks. `render` is pure, so that it can be tested and shown."""

from collections.abc import Mapping
from typing import Any

from headway.live.executors import Launch
from headway.live.executors.common.environment import output_path, rank_environment

MASTER_ADDRESS = "127.0.0.1"


def render(launch: Launch, folder: str, port: int, base: Mapping[str, str]) -> dict[str, Any]:
    """Return the ranks of an attempt, node by node, with their GPUs in the order of the placement."""
    ranks = []
    for rank in range(launch.spec.ranks):
        env = {**base, **rank_environment(launch, rank, folder, MASTER_ADDRESS, port)}
        output = output_path(launch, rank, base.get("HOME", "/"))
        ranks.append({"argv": list(launch.spec.argv), "env": env, "log": f"rank-{rank}.log", "output": output})
    return {"job": launch.job, "attempt": launch.attempt, "ranks": ranks}
