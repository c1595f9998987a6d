"""An attempt as the requests that Slurm gets: options, environment and scripts of its parts. Pure, so that it can be tested and shown."""

import math
from collections.abc import Mapping
from dataclasses import dataclass

from headway.io.numbers import plain_whole
from headway.live.executors import Launch
from headway.live.executors.common.environment import job_environment, output_path
from headway.live.executors.slurm.layout import LayoutPart, layout
from headway.live.executors.slurm.script import batch_script
from headway.slurm.requests import Submit
from headway.slurm.snapshot import SlurmNode

MARK = "headway"
PORTS = range(20_000, 60_000)  # below those that Linux gives out by itself
LIMIT_MARGIN_S = 300.0  # Slurm's own limit comes this much later: Headway stops its jobs itself, with their grace


@dataclass(frozen=True, slots=True)
class SlurmSite:
    """What holds for all submissions: who submits, and what an operator chose in `--executor "slurm?partition=gpu"`."""

    instance: str
    options: Mapping[str, str]  # partition, account, qos, reservation, constraint
    nodes: Mapping[str, SlurmNode]


def comment_of(instance: str, job: int, attempt: int, part: int) -> str:
    """What tells a Slurm job apart: whose it is, and which attempt."""
    return f"{MARK}:{instance}:{job}:{attempt}:{part}"


def read_comment(comment: str, instance: str) -> tuple[int, int, int] | None:
    """(job, attempt, part) of a Slurm job of ours; None for any other."""
    mark, _, rest = comment.partition(":")
    words = rest.split(":")
    if mark != MARK or len(words) != 4 or words[0] != instance:
        return None
    job, attempt, part = map(plain_whole, words[1:])
    return None if job is None or attempt is None or part is None else (job, attempt, part)


def render(launch: Launch, folder: str, port: int, base: Mapping[str, str], site: SlurmSite) -> list[Submit]:
    """One submission per part."""
    parts = layout(launch)
    first = parts[0].nodes[0]
    address = site.nodes[first].address if first in site.nodes else first
    environment = {
        **base,
        **job_environment(launch, folder),
        "MASTER_ADDR": address,
        "MASTER_PORT": str(port),
        "WORLD_SIZE": str(sum(len(part.ranks) for part in parts)),
        "HEADWAY_WORKDIR": launch.spec.workdir or base.get("HOME", "/"),
    }
    outputs = {
        place.rank: output_path(launch, place.rank, base.get("HOME", "/")) for part in parts for place in part.ranks
    }
    return [
        Submit(
            batch_script(launch, part, number, environment | _copies(part, outputs)),
            _options(launch, part, number, folder, site),
        )
        for number, part in enumerate(parts)
    ]


def _copies(part: LayoutPart, outputs: Mapping[int, str | None]) -> dict[str, str]:
    """Where copies of the logs of a part go, a line per rank, if the job asks for any."""
    lines = [outputs[place.rank] or "" for place in part.ranks]
    return {"HEADWAY_OUTPUTS": "\n".join(lines)} if any(lines) else {}


def _options(launch: Launch, part: LayoutPart, number: int, folder: str, site: SlurmSite) -> dict[str, str]:
    spec = launch.spec
    options = {
        "job-name": spec.name or f"{MARK}-{launch.job}.{launch.attempt}",
        "comment": comment_of(site.instance, launch.job, launch.attempt, number),
        **site.options,
        "nodes": str(len(part.nodes)),
        "nodelist": ",".join(part.nodes),
        "ntasks-per-node": "1",
        "gres": f"gpu:{part.gpus}",
        "cpus-per-task": str(_cpus(launch, part, site)),
        "output": f"{folder}/slurm.{number}.log",
        "chdir": "/",
        "open-mode": "append",
        "export": "ALL",  # of nothing (Call.bare): without it Slurm asks a login shell on the node, which takes a second or two
        "no-requeue": "",  # what follows the loss of a node is Headway's to decide
    }
    if memory := _memory_mb(launch, part, site):
        options["mem"] = str(memory)
    if spec.time_limit is not None:
        options["time"] = str(math.ceil((spec.time_limit + spec.preemption.grace + LIMIT_MARGIN_S) / 60.0))
    return options


def _cpus(launch: Launch, part: LayoutPart, site: SlurmSite) -> int:
    """CPUs on each node: as asked for, otherwise the share of its GPUs."""
    asked = launch.spec.resources.cpus
    if asked:
        return max(1, math.ceil(asked * part.gpus / launch.spec.resources.accelerators))
    shares = [node.cpus * part.gpus // node.gpus for node in _known(part, site)]
    return max(1, min(shares, default=1))


def _memory_mb(launch: Launch, part: LayoutPart, site: SlurmSite) -> int:
    """The same of memory; 0: Slurm's default."""
    asked = launch.spec.resources.memory
    if asked:
        return math.ceil(asked * 1024 * part.gpus / launch.spec.resources.accelerators)
    return min((node.memory_mb * part.gpus // node.gpus for node in _known(part, site)), default=0)


def _known(part: LayoutPart, site: SlurmSite) -> list[SlurmNode]:
    return [site.nodes[name] for name in part.nodes if name in site.nodes and site.nodes[name].gpus]
