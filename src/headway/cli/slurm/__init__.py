"""`headway advise` and `headway steer`, beside a Slurm that goes on starting jobs. Imports `slurm` and the tables of the command line."""
