"""Run-time stretch and effective load: what a network is judged by."""

import json

import numpy as np
import pytest
from typer.testing import CliRunner

from headway.cli.main import app
from headway.sim.api import simulate

# Load, and what `simulate` says: the audit's setting (small), and one that ECMP cannot carry.
LARGE = "synthetic:vclos-large?jobs=1500&load=0.6&cluster=vclos-2048"
HEAVY = "synthetic:vclos-tpu?jobs=300&load=0.9&cluster=vclos-8192"


def said(trace, cluster, *more):
    words = [
        "simulate",
        trace,
        "--cluster",
        cluster,
        "--policy",
        "fifo",
        "--placement",
        "consolidated?strict=no",
        *more,
    ]
    result = CliRunner().invoke(app, words, catch_exceptions=False)
    return result.stdout


def test_the_command_tells_what_the_network_did_to_run_times():
    text = " ".join(said(LARGE, "vclos-2048", "--network", "ecmp?exact=10").split())
    found = json.loads(said(LARGE, "vclos-2048", "--network", "ecmp?exact=10", "--json"))
    stretch = found["run_stretch"]
    assert 1.02 < stretch["mean"] < stretch["gpu_weighted"] < 1.3
    assert found["effective_load"] == pytest.approx(0.6 * stretch["gpu_weighted"])
    assert f"run times on ecmp?exact=10: +{100 * (stretch['mean'] - 1):.1f} % on average" in text
    assert "does not carry this load" not in text
    assert "run times" not in said(LARGE, "vclos-2048", "--network", "ideal")


def test_a_network_that_cannot_carry_the_load_is_named():
    """Beyond saturation JCT measures the length of the run: a table without that note is read as a result."""
    text = " ".join(said(HEAVY, "vclos-8192", "--network", "ecmp").split())
    assert "ecmp does not carry this load: waiting and JCT grow with the length of the run" in text


def test_the_report_of_a_comparison_says_so_too(tmp_path):
    page = tmp_path / "page.html"
    words = ["compare", HEAVY, "--cluster", "vclos-8192", "--policies", "fifo,tiresias-l", "--network", "ecmp"]
    words += ["--placement", "consolidated?strict=no", "--report", str(page)]
    CliRunner().invoke(app, words, catch_exceptions=False)
    assert "fifo: ecmp does not carry this load" in page.read_text()


def test_stretch_is_one_without_contention():
    result = simulate(LARGE, "vclos-2048", "fifo", placement="ocs-vclos", network="isolated")
    assert result.summary["run_stretch"] == pytest.approx({"mean": 1.0, "gpu_weighted": 1.0, "p95": 1.0})
    assert result.summary["effective_load"] == pytest.approx(0.6)


def test_jobs_without_work_and_without_a_span_have_no_load(tmp_path):
    path = tmp_path / "jobs.csv"
    path.write_text("submit_s,gpus,duration_s\n0,8,0\n0,8,100\n")
    found = simulate(str(path), "vclos-512", "fifo", network="ecmp").summary
    assert np.isfinite(found["run_stretch"]["mean"])
    assert found["effective_load"] is None


def test_a_file_name_is_not_markup(tmp_path):
    path = tmp_path / "[" / "red].csv"
    path.parent.mkdir()
    path.write_text("submit_s,gpus,duration_s\n0,8,100\n")
    assert "1 job" in said(str(path), "4x8")
