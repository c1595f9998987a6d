"""A training job in torch for a test: DistributedDataParallel over gloo, SGD with momentum, stopped and resumed at any step.

Takes the same options and leaves the same file as headway/demo/train.py.
"""

import argparse
import os
import sys
import time
from pathlib import Path

import numpy as np
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from headway import runtime

INPUTS, HIDDEN, BATCH = 16, 32, 64


def train(steps: int, step_s: float, folder: Path) -> int:
    """Train from the last checkpoint to the end, or until asked to stop; the step reached."""
    torch.manual_seed(0)
    network = torch.nn.Sequential(torch.nn.Linear(INPUTS, HIDDEN), torch.nn.Tanh(), torch.nn.Linear(HIDDEN, 1))
    model = DistributedDataParallel(network)
    optimiser = torch.optim.SGD(network.parameters(), lr=0.05, momentum=0.9)
    step, path, rank = 0, folder / "saved.pt", dist.get_rank()
    if path.exists():
        saved = torch.load(path, weights_only=True)
        step = saved["step"]
        network.load_state_dict(saved["network"])
        optimiser.load_state_dict(saved["optimiser"])
    print(f"{'resumed' if step else 'began'} at step {step}", flush=True)
    stopping = torch.zeros(1)
    while step < steps and not stopping:
        chance = torch.Generator().manual_seed(1_000 * step + rank)
        inputs = torch.randn(BATCH, INPUTS, generator=chance)
        loss = torch.nn.functional.mse_loss(model(inputs).squeeze(1), inputs.sum(1).sin())
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        step += 1
        if rank == 0:
            runtime.report(step, total=steps, loss=float(loss))
        stopping = torch.tensor([float(runtime.should_stop())])
        dist.all_reduce(stopping)  # so that all ranks stop after the same step
        time.sleep(step_s)
    if rank == 0:
        folder.mkdir(parents=True, exist_ok=True)
        torch.save(
            {"step": step, "network": network.state_dict(), "optimiser": optimiser.state_dict()}, f"{path}.aside"
        )
        os.replace(f"{path}.aside", path)
        weights = [each.detach().numpy().ravel() for each in network.parameters()]
        np.savez(folder / "weights.npz", weights=np.concatenate(weights))
        runtime.checkpointed(step)
    return step


def main() -> None:
    """Ranks, their number and their meeting point are in the environment, as torch wants them."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int)
    parser.add_argument("--step-s", type=float)
    given = parser.parse_args()
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    reached = train(given.steps, given.step_s, Path(os.environ["HEADWAY_CHECKPOINT_DIR"]))
    dist.destroy_process_group()
    sys.exit(0 if reached == given.steps else 75)


if __name__ == "__main__":
    main()
