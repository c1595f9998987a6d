"""Functions for use inside a job: when to stop, notices, progress, checkpoints; harmless outside a job. Imports nothing else of Headway."""

from headway.runtime.preemption import listen, notice, should_stop
from headway.runtime.progress import announce, checkpointed, report

__all__ = ["checkpointed", "notice", "report", "should_stop"]

listen()
announce()
