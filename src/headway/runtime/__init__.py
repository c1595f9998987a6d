"""What runs inside a job: when to stop, how far it is, what is saved. Outside a Headway job every call is harmless.

from headway import runtime

for step in range(first, total):
    train()
    runtime.report(step, total=total, loss=loss)
    if runtime.should_stop():
        save()
        runtime.checkpointed(step)
        break
"""

from headway.runtime.preemption import listen, should_stop
from headway.runtime.progress import checkpointed, report

__all__ = ["checkpointed", "report", "should_stop"]

listen()
