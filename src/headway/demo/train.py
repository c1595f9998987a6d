"""A small real training job in NumPy: a two-layer network, data-parallel over sockets, that survives being stopped.

Run it alone (`python -m headway.demo.train --steps 50`), or under Headway with one rank per GPU. Every rank computes the gradient of its
share of the batch; rank 0 sums them and sends the sum back, so that all ranks take the same step. The sum carries one more number: how many
ranks were asked to stop. So all ranks stop after the same step, rank 0 saves, and the next attempt goes on from there.
"""

import argparse
import os
import socket
import sys
import time
from io import BufferedRWPair
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headway import runtime

Vector = NDArray[np.float64]
INPUTS, HIDDEN, BATCH = 16, 32, 64
RATE = 0.05
CONNECT_S = 20.0


class RankGroup:
    """The ranks of this job, joined by sockets through rank 0."""

    def __init__(self, rank: int, size: int, address: str, port: int) -> None:
        self.rank, self.size = rank, size
        self.peers: list[BufferedRWPair] = []
        if size > 1 and rank == 0:
            with socket.create_server((address, port)) as server:
                server.settimeout(CONNECT_S)
                self.peers = [server.accept()[0].makefile("rwb") for _ in range(size - 1)]
        elif size > 1:
            self.peers = [_connect(address, port).makefile("rwb")]

    def sum(self, vector: Vector) -> Vector:
        """The sum of all ranks' vectors, the same on every rank."""
        if self.rank > 0:
            self._send(vector)
            return _receive(self.peers[0], vector.nbytes)
        total = vector.copy()
        for peer in self.peers:
            total += _receive(peer, vector.nbytes)
        self._send(total)
        return total

    def _send(self, vector: Vector) -> None:
        for peer in self.peers:
            peer.write(vector.tobytes())
            peer.flush()


def _connect(address: str, port: int) -> socket.socket:
    until = time.monotonic() + CONNECT_S
    while True:
        try:
            return socket.create_connection((address, port), timeout=CONNECT_S)
        except OSError:
            if time.monotonic() > until:
                raise
            time.sleep(0.05)


def _receive(peer: BufferedRWPair, size: int) -> Vector:
    content = peer.read(size)
    if len(content) < size:
        raise ConnectionError("a rank went away")
    return np.frombuffer(content, np.float64)


def loss_and_gradient(weights: Vector, inputs: Vector, wanted: Vector) -> tuple[float, Vector]:
    """Mean squared error of the network and its gradient by all weights."""
    cut = INPUTS * HIDDEN
    first, second = weights[:cut].reshape(INPUTS, HIDDEN), weights[cut:]
    hidden = np.tanh(inputs @ first)
    error = hidden @ second - wanted
    back = np.outer(error, second) * (1 - hidden**2)
    gradient = np.concatenate([(inputs.T @ back).ravel(), hidden.T @ error])
    return float(np.mean(error**2)), gradient / len(wanted)


def load(path: Path, fresh: Vector) -> tuple[int, Vector]:
    """The step and the weights to go on from."""
    if not path.is_file():
        return 0, fresh
    with np.load(path) as saved:
        return int(saved["step"]), saved["weights"]


def save(path: Path, step: int, weights: Vector) -> None:
    """Write aside and rename: a checkpoint is whole or the one before."""
    path.parent.mkdir(parents=True, exist_ok=True)
    aside = path.with_suffix(".aside.npz")
    np.savez(aside, step=step, weights=weights)
    os.replace(aside, path)


def train(group: RankGroup, steps: int, step_s: float, path: Path) -> int:
    """Train from the last checkpoint to the end, or until asked to stop; the step reached."""
    rng = np.random.default_rng(0)
    teacher = rng.normal(size=INPUTS)
    step, weights = load(path, rng.normal(size=INPUTS * HIDDEN + HIDDEN) * 0.2)
    if group.rank == 0:
        print(f"{'resumed' if step else 'began'} at step {step} of {steps} with {group.size} ranks", flush=True)
    stopping = False
    while step < steps and not stopping:
        began = time.monotonic()
        mine = np.random.default_rng((1, step, group.rank))
        inputs = mine.normal(size=(BATCH, INPUTS))
        loss, gradient = loss_and_gradient(weights, inputs, np.sin(inputs @ teacher))
        totals: Any = group.sum(np.array([*gradient, loss, float(runtime.should_stop())]))
        weights = weights - RATE * totals[:-2] / group.size
        step += 1
        loss = float(totals[-2]) / group.size
        if group.rank == 0:
            runtime.report(step, total=steps, loss=loss)
            if step % 20 == 0 or step == steps:
                print(f"step {step} loss {loss:.4f}", flush=True)
        stopping = bool(totals[-1] > 0)
        if not stopping:
            time.sleep(max(0.0, step_s - (time.monotonic() - began)))
    if group.rank == 0:
        save(path, step, weights)
        runtime.checkpointed(step)
        if step < steps:
            print(f"stopped at step {step}, saved", flush=True)
    return step


def main() -> None:
    """Read the environment that Headway gives every rank, and train."""
    parser = argparse.ArgumentParser(description="Train a small network; see `headway demo`.")
    parser.add_argument("--steps", type=int, default=100)
    # A slot of the demonstration stands for a GPU: a step takes this long at least, however many cores the machine has.
    parser.add_argument("--step-s", type=float, default=0.1)
    arguments = parser.parse_args()
    rank, size = int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "1"))
    address, port = os.environ.get("MASTER_ADDR", "127.0.0.1"), int(os.environ.get("MASTER_PORT", "0"))
    folder = Path(os.environ.get("HEADWAY_CHECKPOINT_DIR") or ".")
    reached = train(RankGroup(rank, size, address, port), arguments.steps, arguments.step_s, folder / "weights.npz")
    # The exit code is the job's own affair: that it saved was reported, and the manager runs it again.
    sys.exit(0 if reached == arguments.steps else 75)


if __name__ == "__main__":
    main()
