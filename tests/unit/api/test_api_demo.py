"""The demonstration's training job, under a real manager: ranks over sockets, stopped in the middle, and the same weights at the end."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
from tests.waiting import PATIENCE_S, wait_for

from headway.demo.jobs import JOBS
from headway.demo.train import HIDDEN, INPUTS, loss_and_gradient
from headway.live.jobfile.spec import job_spec

TRAIN = [sys.executable, "-m", "headway.demo.train"]


def weights(folder: Path) -> np.ndarray[Any, Any]:
    with np.load(folder / "weights.npz") as saved:
        found: np.ndarray[Any, Any] = saved["weights"]
        return found


def test_the_gradient_is_the_slope_of_the_loss() -> None:
    rng = np.random.default_rng(1)
    point, inputs, wanted = rng.normal(size=INPUTS * HIDDEN + HIDDEN), rng.normal(size=(8, INPUTS)), rng.normal(size=8)
    _, gradient = loss_and_gradient(point, inputs, wanted)
    for k in (0, 77, INPUTS * HIDDEN - 1, INPUTS * HIDDEN + 3):
        step = np.zeros_like(point)
        step[k] = 1e-6
        slope = (
            loss_and_gradient(point + step, inputs, wanted)[0] - loss_and_gradient(point - step, inputs, wanted)[0]
        ) / 2e-6
        # The training uses half the derivative of the square, as is usual.
        assert abs(slope - 2 * gradient[k]) < 1e-5


def test_it_runs_alone_outside_a_job(tmp_path: Path) -> None:
    keep = {name: value for name, value in os.environ.items() if not name.startswith(("HEADWAY", "RANK", "WORLD"))}
    done = subprocess.run(
        [*TRAIN, "--steps", "3", "--step-s", "0"],
        cwd=tmp_path,
        env=keep,
        capture_output=True,
        text=True,
        check=True,
        timeout=PATIENCE_S,
    )
    assert "step 3 loss" in done.stdout
    assert (tmp_path / "weights.npz").is_file()


def test_stopped_and_resumed_it_ends_with_the_same_weights(live: Any, tmp_path: Path) -> None:
    def spec(folder: str, step_s: str) -> dict[str, Any]:
        return {
            "command": ["sh", "-c", f'exec "$@" --step-s {step_s}', "sh", *TRAIN, "--steps", "40"],
            "resources": {"accelerators": 2},
            "tasks_per_node": "gpu",
            "checkpoint": {"dir": str(tmp_path / folder)},
            "preemption": {"grace": PATIENCE_S},
        }

    whole = live.submit(**spec("whole", "0"))
    number = live.submit(**spec("stopped", "$(( HEADWAY_ATTEMPT == 1 ))"))  # slow until it is stopped
    wait_for(lambda: live.job(number)["progress"].get("step", 0) >= 3)
    assert live.ask("POST", f"/v1/jobs/{number}/requeue").status_code == 200
    assert live.until(whole, "COMPLETED", "FAILED")["state"] == "COMPLETED"
    job = live.until(number, "COMPLETED", "FAILED")
    assert (job["state"], job["attempt"]) == ("COMPLETED", 2)
    first, second = (live.ask("GET", f"/v1/jobs/{number}/logs?rank=0&attempt={attempt}").text for attempt in (1, 2))
    saved = int(first.split("stopped at step ")[1].split(",")[0])
    assert 3 <= saved < 40
    assert f"resumed at step {saved} of 40 with 2 ranks" in second
    np.testing.assert_array_equal(weights(tmp_path / "whole"), weights(tmp_path / "stopped"))


def test_the_jobs_of_the_demonstration_are_valid_and_fit(tmp_path: Path) -> None:
    specs = [job_spec(job.spec(tmp_path)) for job in JOBS]
    assert len(specs) == 12
    assert max(spec.gpus for spec in specs) == 8
    assert sum(spec.ranks > 1 for spec in specs) >= 4
    assert all(spec.may_preempt for spec in specs)
    assert [job.at_s for job in JOBS] == sorted(job.at_s for job in JOBS)
