"""`headway sweep` as a person uses it, killed half-way included."""

import csv
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from tests.processes import descendants, is_dead
from tests.waiting import COMPILES_S, wait_for

from headway.cli.main import main

ROOT = Path(__file__).parents[2]
HEADWAY = [sys.executable, "-c", "from headway.cli.main import main; main()"]
# Once a sweep has as many cells as the file `gate` says, a worker that comes to a cell of this policy gets no further.
OWN = """
import multiprocessing, time
from pathlib import Path
gate = Path("gate")
class Mine:
    def __init__(self):
        while multiprocessing.parent_process() and gate.exists() and self.done() >= int(gate.read_text()):
            time.sleep(0.05)
    def done(self):
        return len(list(Path("killed.sweep/cells").glob("*.json")))
    def key(self, job, now, options):
        return job.gpus, job.submit
"""


def headway(folder, *arguments, check=True, **environment):
    """Run the command in a folder; its output."""
    given = {
        "cwd": folder,
        "env": os.environ | environment,
        "capture_output": True,
        "text": True,
        "timeout": COMPILES_S,
    }
    done = subprocess.run([*HEADWAY, *arguments], **given, check=False)
    if check:
        assert done.returncode == 0, done.stderr
    return done


def grid_of(cells):
    """A sweep of so many small cells."""
    return (
        "traces: synthetic:tiresias-480?jobs=100\nclusters: 15x4\npolicies: [fifo, las, own:Mine, tiresias-l]\n"
        f"loads: [0.6, 0.9]\nseeds: {cells // 8}\n"
    )


@pytest.fixture
def folder(tmp_path):
    """A folder with a sweep and a policy of one's own."""
    (tmp_path / "own.py").write_text(OWN)
    return tmp_path


@pytest.mark.xdist_group("sweep")
def test_a_sweep_killed_half_way_ends_like_one_that_was_not(folder, rounds):
    cells = rounds(80, 200)
    (folder / "whole.yaml").write_text(grid_of(cells))
    (folder / "killed.yaml").write_text(grid_of(cells))
    headway(folder, "sweep", "whole.yaml", "--workers", "2")
    (folder / "gate").write_text(f"{cells // 2}")
    running = subprocess.Popen(
        [*HEADWAY, "sweep", "killed.yaml", "--workers", "2"],
        cwd=folder,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    results = folder / "killed.sweep" / "cells"
    wait_for(lambda: len(list(results.glob("*.json"))) >= cells // 2, "the sweep does not get on")
    workers = descendants(running.pid)
    os.kill(running.pid, signal.SIGKILL)
    running.wait()
    (folder / "gate").unlink()
    wait_for(lambda: all(map(is_dead, workers)), "workers outlive a killed sweep")
    before = {path.name: path.stat().st_mtime_ns for path in results.glob("*.json")}
    assert cells // 2 <= len(before) < cells
    assert not (folder / "killed.sweep" / "results.csv").exists()

    headway(folder, "sweep", "killed.yaml", "--workers", "2")
    after = {path.name: path.stat().st_mtime_ns for path in results.glob("*.json")}
    assert len(after) == cells
    assert {name: after[name] for name in before} == before, "a finished cell was run again"
    one, other = ((folder / f"{name}.sweep" / "results.csv").read_text() for name in ("whole", "killed"))
    assert len(list(csv.DictReader(one.splitlines()))) == cells
    assert one == other


@pytest.mark.xdist_group("sweep")
def test_a_sweep_from_file_to_report(folder):
    (folder / "small.yaml").write_text(grid_of(16))
    said = json.loads(headway(folder, "sweep", "small.yaml", "--json").stdout)
    assert said == {"cells": 16, "finished": 16, "failed": 0, "out": "small.sweep", "failures": []}
    policies = {row["policy"] for row in csv.DictReader((folder / "small.sweep" / "results.csv").open())}
    assert policies == {"fifo", "las", "own:Mine", "tiresias-l"}
    headway(folder, "sweep", "report", "small.yaml")
    page = (folder / "small.sweep" / "report.html").read_text()
    assert "own:Mine" in page
    parquet = pytest.importorskip("pyarrow.parquet")
    assert parquet.read_table(folder / "small.sweep" / "results.parquet").num_rows == 16


@pytest.mark.xdist_group("sweep")
def test_a_sweep_over_networks(folder):
    """Shared links cost time, links of one's own do not; each cell is what `simulate` gives."""
    trace = "synthetic:vclos?jobs=40&load=0.8&cluster=vclos-512"
    (folder / "nets.yaml").write_text(
        f"traces: {trace}\nclusters: vclos-512\npolicies: fifo\nnetwork: [ideal, ecmp]\n"
        "placements: [spread, {placement: vclos-padded, network: isolated}]\n"
    )
    headway(folder, "sweep", "nets.yaml")
    rows = list(csv.DictReader((folder / "nets.sweep" / "results.csv").open()))
    found = {(row["placement"], row["network"]): row for row in rows}
    assert list(found) == [("spread", "ideal"), ("spread", "ecmp"), ("vclos-padded", "isolated")]
    assert float(found["spread", "ecmp"]["jct_mean_s"]) > float(found["spread", "ideal"]["jct_mean_s"])
    where = ("--cluster", "vclos-512", "--policy", "fifo", "--placement", "spread", "--network", "ecmp")
    alone = json.loads(headway(folder, "simulate", f"{trace}&seed=0", *where, "--json").stdout)
    assert float(found["spread", "ecmp"]["jct_p95_s"]) == alone["jct_s"]["p95"]
    headway(folder, "sweep", "report", "nets.yaml")
    assert "network (3)" in (folder / "nets.sweep" / "report.html").read_text()


@pytest.mark.xdist_group("sweep")
def test_a_cell_that_cannot_run_is_named_and_the_others_are_kept(folder):
    text = "traces: synthetic:tiresias-480?jobs=40\nclusters: [15x4, 2x4]\npolicies: fifo\n"
    (folder / "some.yaml").write_text(text)
    done = headway(folder, "sweep", "some.yaml", check=False)
    assert done.returncode == 1
    assert "1 cell failed" in done.stderr
    assert "larger than 2x4" in done.stderr
    assert len(list(csv.DictReader((folder / "some.sweep" / "results.csv").open()))) == 1


@pytest.mark.xdist_group("sweep")
def test_a_sweep_without_results_names_no_table(folder):
    (folder / "none.yaml").write_text("traces: synthetic:tiresias-480?jobs=40\nclusters: 2x4\npolicies: fifo\n")
    (folder / "none.sweep").mkdir()
    (folder / "none.sweep" / "results.csv").write_text("of before")
    done = headway(folder, "sweep", "none.yaml", check=False)
    assert done.stdout == "0 of 1 cells finished\n"
    assert "leave them out with skip_impossible: yes" in done.stderr
    assert not (folder / "none.sweep" / "results.csv").exists()


@pytest.mark.xdist_group("sweep")
def test_edited_inputs_and_damaged_results_run_again(folder):
    """Three runs: the second after an edit of a file and of a helper, the third after a fault of the disk."""
    (folder / "helped.py").write_text(
        "import helper\nclass Mine:\n    def key(self, job, now, options):\n        return helper.sign * job.gpus, job.submit\n"
    )
    (folder / "edited.yaml").write_text(
        "traces: synthetic:tiresias-480?jobs=100\nclusters: 15x4\nloads: 8\n"
        "policies: ['gittins?distribution=dist.txt', 'helped:Mine']\n"
    )
    found = []
    for samples, sign in (("1\n9\n99999\n", "1"), ("500000\n600000\n", "-1")):
        (folder / "dist.txt").write_text(samples)
        (folder / "helper.py").write_text(f"sign = {sign}\n")
        headway(folder, "sweep", "edited.yaml", PYTHONDONTWRITEBYTECODE="1")
        table = (folder / "edited.sweep" / "results.csv").read_text()
        found.append([row["jct_mean_s"] for row in csv.DictReader(table.splitlines())])
    assert all(before != after for before, after in zip(*found, strict=True))

    cells = folder / "edited.sweep" / "cells"
    assert len(list(cells.glob("*.json"))) == 4
    for path in cells.glob("*.json"):
        path.write_bytes(path.read_bytes()[:40])
    headway(folder, "sweep", "edited.yaml")
    assert (folder / "edited.sweep" / "results.csv").read_text() == table


@pytest.mark.xdist_group("sweep")
def test_a_policy_that_breaks_takes_no_other_cell_along(folder):
    (folder / "broken.py").write_text(
        "import numpy as np\nclass Broken:\n    def key(self, job, now, options): return 1 / int(np.max(job.submit) < 100), 0\n"
    )
    (folder / "some.yaml").write_text(
        "traces: synthetic:tiresias-480?jobs=40\nclusters: 15x4\npolicies: ['broken:Broken', fifo]\n"
    )
    done = headway(folder, "sweep", "some.yaml", check=False)
    assert done.returncode == 1
    assert "ZeroDivisionError: division by zero" in done.stderr
    assert "broken.py, line 3" in done.stderr
    assert "Traceback" not in done.stderr
    assert [row["policy"] for row in csv.DictReader((folder / "some.sweep" / "results.csv").open())] == ["fifo"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("polices: fifo\n", "unknown key 'polices': did you mean 'policies'?"),
        ("traces: synthetic:philly\nclusters: 15x4\npolicies: tiresis-l\n", "unknown policy 'tiresis-l'"),
        (
            "traces: synthetic:philly\nclusters: 15x4\npolicies: tiresias-l?treshold=5\n",
            "bad.yaml: unknown option of policy tiresias-l 'treshold'",
        ),
        ("traces: none.csv\nclusters: 15x4\npolicies: fifo\n", "none.csv"),
        ("traces: synthetic:philly\nclusters: phily\npolicies: fifo\n", "unknown cluster 'phily'"),
        ("traces: synthetic:philly\nclusters: 15x4\npolicies: fifo\nnetwork: ecmp\n", "15x4 has no fabric"),
    ],
)
def test_bad_sweeps_are_one_line(folder, text, said, monkeypatch, capsys):
    (folder / "bad.yaml").write_text(text)
    monkeypatch.chdir(folder)
    monkeypatch.setattr(sys, "argv", ["headway", "sweep", "bad.yaml"])
    with pytest.raises(SystemExit) as ended:
        main()
    error = capsys.readouterr().err
    assert ended.value.code == 1
    assert said in error
    assert error.count("\n") == 1
    assert not (folder / "bad.sweep").exists()


def test_slurm_without_slurm_is_one_line(folder):
    (folder / "small.yaml").write_text(grid_of(8))
    done = headway(folder, "sweep", "small.yaml", "--on", "slurm", check=False, PATH=str(folder))
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    assert "slurm" in done.stderr.lower()
