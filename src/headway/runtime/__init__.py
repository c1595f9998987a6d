"""What runs inside a job: when to stop, how far it is, what is saved; harmless outside one. Imports nothing else of Headway."""

from headway.runtime.preemption import listen, should_stop
from headway.runtime.progress import announce, checkpointed, report

__all__ = ["checkpointed", "report", "should_stop"]

listen()
announce()
