"""Batch scripts: the #SBATCH lines that people have, in the fields of a job."""

from pathlib import Path

import pytest

from headway.errors import BadInput
from headway.live.jobfile.sbatch import memory_gb, read_script, time_limit_s
from headway.live.jobfile.spec import job_spec


def script(folder: Path, lines: str, shebang: str = "#!/bin/bash") -> Path:
    path = folder / "train.sh"
    path.write_text(f"{shebang}\n{lines}\necho $1\n", encoding="utf-8")
    return path


def test_common_lines_become_a_job(tmp_path: Path) -> None:
    path = script(
        tmp_path,
        "#SBATCH --job-name=resnet\n#SBATCH -N 2   # two nodes\n#SBATCH --gres=gpu:a100:4\n#SBATCH --ntasks-per-node 4\n"
        "#SBATCH -t 1-02:03:04 -p team\n#SBATCH --array=0-9%2\n#SBATCH --mem=64G\n#SBATCH --dependency=afterok:3:4\n"
        "#SBATCH --signal=B:USR1@90\n#SBATCH -o out.txt\n",
    )
    read = read_script(path, ("a b",))
    job = job_spec(read.fields)
    assert (job.name, job.num_nodes, job.resources.accelerators, job.gpus, job.tasks) == ("resnet", 2, 4, 8, 4)
    assert (job.time_limit, job.queue, job.array, job.after) == (93_784.0, "team", "0-9%2", (3, 4))
    assert (job.preemption.signal, job.preemption.grace) == ("SIGUSR1", 90.0)
    assert job.resources.memory == pytest.approx(68.719, abs=1e-3)
    assert job.command[:2] == ("/bin/bash", "-c")
    assert job.command[-2:] == ("train.sh", "a b")
    assert job.command[2] == path.read_text(encoding="utf-8")
    assert len(read.notes) == 1
    assert "--output" in read.notes[0]


@pytest.mark.parametrize(
    ("line", "gpus"),
    [
        ("--gpus-per-node=8", 8),
        ("--gres=gpu:2", 2),
        ("--gres=gpu", 1),
        ("-N 2 -G 8", 4),
        ("--gpus=v100:3", 3),
        ("--gpus-per-task=1 --ntasks-per-node=4", 4),
    ],
)
def test_gpus_however_they_are_asked_for(tmp_path: Path, line: str, gpus: int) -> None:
    assert job_spec(read_script(script(tmp_path, f"#SBATCH {line}")).fields).resources.accelerators == gpus


def test_options_that_change_the_job_are_obeyed(tmp_path: Path) -> None:
    lines = "#SBATCH --no-requeue\n#SBATCH --export=ALL,MODE=fast -c 3 --ntasks-per-node=2\n"
    read = read_script(script(tmp_path, lines))
    job = job_spec(read.fields)
    assert (job.retry.max, dict(job.envs), job.resources.cpus) == (0, {"MODE": "fast"}, 6)
    assert ["--export=ALL has no effect" in note for note in read.notes] == [True]


def test_ranks_in_all_become_ranks_on_each_node(tmp_path: Path) -> None:
    assert job_spec(read_script(script(tmp_path, "#SBATCH -n 8 -N 2")).fields).tasks == 4
    assert job_spec(read_script(script(tmp_path, "#SBATCH -n 8 --ntasks-per-node=2")).fields).tasks == 2
    with pytest.raises(BadInput, match="does not divide over 2 nodes"):
        read_script(script(tmp_path, "#SBATCH -n 3 -N 2"))


def test_a_script_that_calls_srun_is_told_that_there_is_none(tmp_path: Path) -> None:
    assert "no srun here" in read_script(script(tmp_path, "srun python train.py")).notes[0]
    assert read_script(script(tmp_path, "echo srun")).notes == []


def test_lines_after_the_first_command_do_not_count(tmp_path: Path) -> None:
    path = script(tmp_path, "# a comment\n\n#SBATCH -J one\necho hi\n#SBATCH -J two")
    assert read_script(path).fields["name"] == "one"


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("--gpu-per-node=2", "did you mean 'gpus-per-node'"),
        ("--nodes=two", "line 2: 'two' is not a whole number"),
        ("--nodes", "--nodes needs a value"),
        ("--time=1:2:3:4", "is not a time"),
        ("--mem=lots", "is not a size of memory"),
        ("--gres=fpga:1", "only gpu is known"),
        ("--gpus=3 -N 2", "does not divide over 2 nodes"),
        ("--gpus-per-node=2 --gres=gpu:4", "two ways that differ"),
        ("--dependency=singleton", "is not known here"),
        ("nodes=2", "is not an option"),
        ("--exclusive", "--exclusive: jobs share nodes"),
        ("--nodelist=n1", "--nodelist: nodes cannot be chosen"),
        ("--export=MODE", "write its value too, MODE=VALUE"),
        ("--job-name='a", "No closing quotation"),
    ],
)
def test_what_cannot_be_used_is_named(tmp_path: Path, line: str, words: str) -> None:
    with pytest.raises(BadInput, match=words):
        read_script(script(tmp_path, f"#SBATCH {line}"))


@pytest.mark.parametrize("shebang", ["#!/usr/bin/python3", "echo", "#!", "#!/usr/bin/env python3"])
def test_only_shell_scripts(tmp_path: Path, shebang: str) -> None:
    with pytest.raises(BadInput, match="line 1"):
        read_script(script(tmp_path, "", shebang))


def test_binary_files_and_missing_files(tmp_path: Path) -> None:
    (tmp_path / "x.sh").write_bytes(b"#!/bin/sh\n\xff\xfe")
    (tmp_path / "nul.sh").write_bytes(b"#!/bin/sh\n\0")
    for name in ("x.sh", "nul.sh", "absent.sh"):
        with pytest.raises(BadInput, match=name):
            read_script(tmp_path / name)


def test_times_and_memory_as_slurm_reads_them() -> None:
    times = {"90": 5400, "1:30": 90, "2:00:00": 7200, "1-0": 86_400, "1-1:30": 91_800, "0-0:0:5": 5}
    assert {text: time_limit_s(text, "") for text in times} == times
    assert memory_gb("1000", "") == memory_gb("1000M", "") == pytest.approx(1.048576)
