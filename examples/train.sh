#!/bin/bash
# A batch script: headway submit examples/train.sh -- 200 (start the manager in an environment whose `python` has headway)
#SBATCH --job-name=small-network
#SBATCH --nodes=1
#SBATCH --gpus-per-node=2
#SBATCH --ntasks-per-node=2
#SBATCH --time=10
exec python -m headway.demo.train --steps "${1:-100}"
