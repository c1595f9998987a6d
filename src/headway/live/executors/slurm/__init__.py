"""The executor for a Slurm cluster: one Slurm job per attempt and kind of node. Imports the base class above it, `common` and `slurm`."""

from headway.live.executors.slurm.executor import SlurmExecutor

EXECUTOR = SlurmExecutor
