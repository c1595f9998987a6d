"""`--on slurm` goes through submitit; here its local executor stands for the Slurm one, with the same calls."""

import sys

import pytest

from headway.errors import BadInput, HeadwayError
from headway.sim.experiment import Experiment
from headway.sim.sweep import run as sweep
from headway.sim.sweep import slurm as sweep_slurm
from headway.sim.sweep.cell import rows

submitit = pytest.importorskip("submitit")


class Local(submitit.LocalExecutor):
    """Takes what the Slurm executor takes."""

    given: dict = {}  # noqa: RUF012

    def update_parameters(self, **given):
        Local.given = given
        super().update_parameters(timeout_min=5)


def cell(seed, cluster="15x4"):
    return Experiment("synthetic:tiresias-480?jobs=20", cluster, "fifo", seed=seed)


def test_shares_of_the_cells_run_as_jobs_and_failures_come_back(tmp_path, monkeypatch):
    monkeypatch.setattr(submitit, "SlurmExecutor", Local)
    monkeypatch.setattr(sweep_slurm, "CELLS_PER_JOB", 2)
    monkeypatch.setattr(sweep_slurm, "POLL_S", 0.05)
    cells = [cell(0), cell(1), cell(2, "1x4")]
    heard = []
    failures = sweep.run_sweep(cells, tmp_path, on="slurm", slurm={"partition": "gpu"}, progress=heard.append)
    assert [failure.cell for failure in failures] == [cells[2]]
    assert "larger than 1x4" in failures[0].reason
    assert len(rows(cells, tmp_path)) == 2
    assert sum(heard) == 3
    assert Local.given["partition"] == "gpu"
    assert Local.given["cpus_per_task"] == 1


def test_a_setting_of_slurm_without_slurm_is_refused(tmp_path):
    with pytest.raises(BadInput, match=r"--slurm partition=\.\.\. is a setting of Slurm jobs: add --on slurm"):
        sweep.run_sweep([cell(0)], tmp_path, slurm={"partition": "gpu"})


def test_an_unknown_setting_of_slurm_is_one_line(tmp_path, monkeypatch):
    monkeypatch.setattr("shutil.which", lambda name: f"/usr/bin/{name}")
    with pytest.raises(BadInput, match="partitoin"):
        sweep_slurm.submitted([cell(0)], tmp_path, {"partitoin": "gpu"}, None)


def test_without_submitit_the_way_out_is_named(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "submitit", None)
    with pytest.raises(HeadwayError, match="pip install submitit"):
        sweep_slurm.submitted([cell(0)], tmp_path, {}, None)


def test_only_plain_digits_are_numbers():
    """`²` is a digit to Python and no number."""
    from headway.cli.sweep import _settings

    assert _settings(["cpus=12", "name=²", "long=" + "9" * 5000]) == {"cpus": 12, "name": "²", "long": "9" * 5000}
