"""The executor for the nodes of a Slurm cluster: one Slurm job per attempt and kind of node. Imports the protocol above it and `slurm`."""

from headway.live.executors.slurm.executor import SlurmExecutor

EXECUTOR = SlurmExecutor
