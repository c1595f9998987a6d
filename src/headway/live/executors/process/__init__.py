"""The executor for the nodes of this machine: processes under a shim that outlives the manager."""

from headway.live.executors.process.executor import ProcessExecutor

EXECUTOR = ProcessExecutor
