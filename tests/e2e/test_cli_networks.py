"""`headway simulate` with networks: what works, and what bad input says."""

import json

import pytest
from typer.testing import CliRunner

from headway.cli.main import app
from headway.errors import BadInput

FEW = "synthetic:vclos?jobs=60&load=0.8&cluster=vclos-512"


def run(*arguments):
    """The command's output; errors come out as they are raised, before main() prints them."""
    return CliRunner().invoke(app, ["simulate", *arguments], catch_exceptions=True)


def refusal(*arguments):
    result = run(*arguments)
    assert isinstance(result.exception, BadInput), result.output
    message = str(result.exception)
    assert "\n" not in message
    return message


def test_policies_placements_and_networks_combine():
    command = (FEW, "--cluster", "vclos-512", "--policy", "tiresias-l", "--placement", "ocs-vclos")
    result = run(*command, "--network", "isolated", "--json")
    assert result.exit_code == 0, result.output
    summary = json.loads(result.stdout)
    assert summary["network"] == "isolated"
    assert summary["fabric"] == "ocs-vclos-512"
    assert summary["finished"] == summary["jobs"] == 60
    assert summary["undecided"] == 0


@pytest.mark.parametrize("network", ["ecmp", "balanced", "source"])
def test_shared_networks_slow_jobs_down(network):
    def mean_jct(name):
        command = (
            FEW,
            "--cluster",
            "vclos-512",
            "--policy",
            "fifo",
            "--placement",
            "spread",
            "--network",
            name,
            "--json",
        )
        return json.loads(run(*command).stdout)["jct_s"]["mean"]

    assert mean_jct(network) > mean_jct("ideal")


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (
            ("--cluster", "15x4", "--network", "isolated"),
            "use --placement vclos, vclos-padded or ocs-vclos, not consolid",
        ),
        (("--cluster", "15x4", "--network", "ecmp"), "cluster 15x4 has no fabric: name one with --fabric"),
        (("--cluster", "vclos-512", "--network", "ecmq"), "did you mean 'ecmp'"),
        (("--cluster", "15x4", "--placement", "vclos"), "cluster 15x4 has no fabric"),
        (
            ("--cluster", "64x8", "--network", "ecmp", "--fabric", "vclos-2048"),
            "256 servers of 8 GPUs, cluster 64x8 64",
        ),
        (("--cluster", "64x8", "--placement", "vclos", "--fabric", "ocs-vclos-512"), "use --placement ocs-vclos, not"),
        (
            ("--cluster", "vclos-512", "--placement", "ocs-vclos", "--network", "ecmp"),
            "use --network isolated or ideal",
        ),
        (("--cluster", "128x8", "--placement", "vclos", "--fabric", "superpod"), "leaf-spine fabrics only"),
        (("--cluster", "vclos-512", "--placement", "vclos", "--policy", "gandiva"), "puts two jobs on one GPU"),
        (("--cluster", "64x8", "--network", "ecmp", "--fabric", "vclos-51"), "vclos-51"),
    ],
)
def test_bad_input_says_what_would_be_right(arguments, says):
    assert says in refusal("synthetic:tiresias-480?jobs=5", *arguments)


def test_a_job_that_can_never_be_isolated_is_refused_or_left_out(tmp_path):
    trace = tmp_path / "odd.csv"
    trace.write_text("submit_s,gpus,duration_s\n0,37,100\n5,8,100\n")
    command = (str(trace), "--cluster", "vclos-512", "--placement", "vclos", "--network", "isolated")
    message = refusal(*command)
    assert "no m <= 16 leaves and n <= 32 with m*n = 37; the nearest sizes that fit are 36 or 38" in message
    assert "--skip-impossible" in message
    result = run(*command, "--skip-impossible", "--json")
    assert json.loads(result.stdout)["jobs"] == 1


def test_a_fabric_in_a_file_goes_with_a_cluster_of_its_size(tmp_path):
    from headway.sim.network_files import load_fabric

    fabric = tmp_path / "mine.yaml"
    fabric.write_text("name: mine\nkind: leaf-spine\nleaves: 4\nservers_per_leaf: 2\ngpus_per_server: 4\nspines: 8\n")
    assert load_fabric(str(fabric)).gpus == 32
    command = (
        "synthetic:tiresias-480?jobs=20",
        "--cluster",
        "8x4",
        "--placement",
        "vclos-padded",
        "--network",
        "isolated",
    )
    result = run(*command, "--fabric", str(fabric), "--json")
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["fabric"] == "mine"
