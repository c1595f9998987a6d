"""The executor for this machine: processes under a shim that outlives the manager. Imports the base class above it and `common`."""

from headway.live.executors.process.executor import ProcessExecutor

EXECUTOR = ProcessExecutor
