"""A rehearsal: run one small job on a separate engine, so that all kernels are compiled before real jobs arrive."""

from headway.cluster.nodes import Cluster
from headway.core.engine import Event
from headway.core.events import ENDED, STARTED, SUBMITTED
from headway.core.operations import admit
from headway.core.receipts import receipt_us, why_waiting
from headway.core.timers import due
from headway.live.state.engine import LiveEngine
from headway.placement.registry import find_placement
from headway.policies.registry import find_policy


def rehearse(cluster: Cluster, policy: str, placement: str) -> None:
    """Call the functions that a first job calls. This takes milliseconds, or half a minute if the kernels are not compiled yet."""
    engine = LiveEngine(cluster, find_policy(policy), find_placement(placement))
    for row in (0, 1):
        admit(engine.state, row, submit=0.0, gpus=cluster.gpus[0] if row else 1)
        engine.record(Event(SUBMITTED, row), 0.0)
    started = []
    for action in engine.decide(0.0).actions:
        engine.record(action, 0.0)
        started.append(action.job)
    for row in started:
        engine.record(Event(STARTED, row), 1.0)
    engine.own_facts(engine.wake_at(1.0), 1.0)
    due(engine.state, 1.0)
    why_waiting(engine.state, engine.options, engine.state.jobs["row"][:2])
    engine.reservation(1.0)
    for row in started:
        engine.record(Event(ENDED, row), 2.0)
        receipt_us(engine.state, engine.options, row, 2.0)
    engine.decide(2.0)
