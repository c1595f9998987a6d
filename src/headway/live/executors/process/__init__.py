"""The executor for the nodes of this machine: processes under a shim that outlives the manager. Imports the protocol above it."""

from headway.live.executors.process.executor import ProcessExecutor

EXECUTOR = ProcessExecutor
