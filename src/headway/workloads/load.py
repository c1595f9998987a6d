"""Load a workload by name: a trace file, recognised by its content, or `synthetic:NAME?...`."""

import os
from dataclasses import replace

from headway.errors import BadInput, unknown
from headway.io import specs
from headway.workloads.parsing.source import read_source
from headway.workloads.registry import named, recognised
from headway.workloads.synthetic import MAKERS, PREFIX, synthetic
from headway.workloads.workload import Workload

# Options that pick one of the queues of a trace.
PICKS = ("vc", "trace")


def load(spec: str, *, strict: bool = False) -> Workload:
    """The workload that `spec` names; `strict` refuses rows that are otherwise left out and counted.

    A file may be followed by options: `trace.csv?vc=NAME` takes the jobs of one virtual cluster, `?reader=` names the format.
    """
    if spec.startswith(PREFIX):
        return synthetic(spec)
    name, options = (spec, {}) if os.path.exists(spec) else specs.split(spec)
    if name in MAKERS and not os.path.exists(name):
        raise BadInput(f"{name}: no such file; did you mean {PREFIX}{name}?")
    source = read_source(name)
    reader = named(options["reader"], source) if "reader" in options else recognised(source)
    specs.check(options, ("vc", "reader", *reader.options), reader.name)
    jobs = reader.read(source, options, strict=strict)
    for key in PICKS:
        if key in options:
            jobs = _pick(jobs, key, options[key])
    return replace(jobs, name=spec)


def _pick(jobs: Workload, key: str, queue: str) -> Workload:
    """The jobs of one queue."""
    mask = jobs.queue == queue
    if mask.any():
        return jobs.take(mask)
    queues = set(jobs.queue.tolist()) - {""}
    if not queues:
        raise BadInput(
            f"{jobs.name}: unknown {key} {queue!r}: the trace has no queues (columns vc or queue) to pick from"
        )
    raise BadInput(f"{jobs.name}: {unknown(key, queue, queues)}")
