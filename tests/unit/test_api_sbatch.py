"""Batch scripts: the #SBATCH lines that people have, in the fields of a job."""

from pathlib import Path

import pytest

from headway.errors import BadInput
from headway.live.executors import Launch
from headway.live.executors.common.environment import output_path
from headway.live.jobfile.notes import refuse_unsupported
from headway.live.jobfile.sbatch import FIELDS, memory_gb, read_script, time_limit_s
from headway.live.jobfile.sbatch_options import REFUSED
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
    assert (job.resources.type, job.output) == ("a100", "out.txt")
    assert ["here the signal goes to every process" in note for note in read.notes] == [True]


# A value for each option of a script that sets a field of the job.
VALUES = {
    "job-name": "gpt", "nodes": "2", "ntasks": "2", "ntasks-per-node": "2", "cpus-per-task": "2", "mem": "1G", "time": "5",
    "partition": "team", "array": "0-3", "dependency": "afterok:1", "constraint": "ib", "output": "log", "hold": "",
    "cpus-per-gpu": "2", "mem-per-cpu": "1G", "mem-per-gpu": "1G", "ntasks-per-gpu": "2", "chdir": "/tmp", "signal": "USR1@9",
    "no-requeue": "", "gpus": "2", "gpus-per-node": "2", "gpus-per-task": "2", "gres": "gpu:2",
}  # fmt: skip


@pytest.mark.parametrize("option", FIELDS)
def test_every_option_that_is_read_sets_fields_of_a_job_file(tmp_path: Path, option: str) -> None:
    line = f"#SBATCH --{option}={VALUES[option]}" if VALUES[option] else f"#SBATCH --{option}"
    changed = job_spec(read_script(script(tmp_path, line)).fields).model_dump()
    plain = job_spec(read_script(script(tmp_path, "")).fields).model_dump()
    assert {field for field in plain if changed[field] != plain[field]} - {"command"}  # which holds the script


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
    job = job_spec(read_script(script(tmp_path, "#SBATCH -n 8 --ntasks-per-node=2 --gpus=8")).fields)
    assert (job.ranks, job.tasks, job.num_nodes, job.resources.accelerators) == (
        8,
        2,
        4,
        2,
    )  # as many nodes as it takes
    job = job_spec(read_script(script(tmp_path, "#SBATCH -n 4 --ntasks-per-node=2 -N 2")).fields)
    assert (job.ranks, job.num_nodes) == (4, 2)
    for line in ("-n 3 --ntasks-per-node=2 -N 2", "-n 5 --ntasks-per-node=2", "-n 1 --ntasks-per-node=4"):
        with pytest.raises(
            BadInput, match=r"--ntasks=\d, but \d nodes? with --ntasks-per-node=\d makes? \d: leave one"
        ):
            read_script(script(tmp_path, f"#SBATCH {line}"))
    with pytest.raises(BadInput, match="does not divide over 2 nodes"):
        read_script(script(tmp_path, "#SBATCH -n 3 -N 2"))


def test_a_script_that_reads_variables_of_slurm_is_told_what_says_the_same(tmp_path: Path) -> None:
    """They were empty without a word: every task of an array would do the work of the same one."""
    text = "# $SLURM_JOB_NAME\necho $SLURM_JOB_ID ${SLURM_JOB_ID}\nSLURM_X=1; echo $SLURM_X\npython t.py ${SLURM_ARRAY_TASK_ID} $SLURM_QOS"
    path = script(tmp_path, text)
    assert read_script(path).notes == [
        f"{path}: $SLURM_JOB_ID is empty here: use $HEADWAY_JOB_ID",
        f"{path}: $SLURM_ARRAY_TASK_ID is empty here: use $HEADWAY_ARRAY_INDEX",
        f"{path}: $SLURM_QOS is empty here",
    ]


def test_a_script_that_calls_srun_is_told_that_there_is_none(tmp_path: Path) -> None:
    assert "no srun here" in read_script(script(tmp_path, "srun python train.py")).notes[0]
    assert read_script(script(tmp_path, "echo srun")).notes == []


def test_lines_after_the_first_command_do_not_count(tmp_path: Path) -> None:
    path = script(tmp_path, "# a comment\n\n#SBATCH -J one\necho hi\n#SBATCH -J two")
    read = read_script(path)
    assert read.fields["name"] == "one"
    assert read.notes == [
        f"{path}, line 6: '#SBATCH -J two' comes after the first command: it has no effect, as in Slurm"
    ]


def test_options_that_may_have_a_value_leave_the_next_word_alone(tmp_path: Path) -> None:
    """`--nice --gpus=4` asked for one GPU, and the note was about `--nice` alone."""
    for option in ("--nice", "--propagate", "--get-user-env", "--no-kill", "-k", "-koff"):
        read = read_script(script(tmp_path, f"#SBATCH {option} --gpus=4"))
        assert (job_spec(read.fields).gpus, len(read.notes)) == (4, 1)
    read = read_script(script(tmp_path, "#SBATCH -QvH -N2"))  # several in one word
    assert (job_spec(read.fields).hold, job_spec(read.fields).num_nodes, len(read.notes)) == (True, 2, 2)
    with pytest.raises(BadInput, match="'100' is not an option"):
        read_script(script(tmp_path, "#SBATCH --nice 100"))


@pytest.mark.parametrize("given", ["USR1@30", "SIGUSR1@30", "10@30"])
def test_signals_have_names_and_numbers(tmp_path: Path, given: str) -> None:
    job = job_spec(read_script(script(tmp_path, f"#SBATCH --signal={given}")).fields)
    assert (job.preemption.signal, job.preemption.grace) == ("SIGUSR1", 30.0)


@pytest.mark.parametrize(
    ("pattern", "path"),
    [
        ("out", "/w/out"),
        ("/o/%x-%j.%t", "/o/a-b-42.5"),
        ("%A_%3a-%b", "/w/40_012-2"),
        ("%n.%N.%u%%", "/w/2.n7.ada%"),
        ("%4j%15j", "/w/00420000000042"),
    ],
)
def test_patterns_of_an_output_are_those_of_slurm(pattern: str, path: str) -> None:
    spec = job_spec(
        {"run": "true", "name": "a/b", "output": pattern, "workdir": "/w", "num_nodes": 3, "tasks_per_node": 2}
    )
    refuse_unsupported(spec)
    assert output_path(Launch(42, 1, "ada", spec, (0, 1, 2), ("n7", "n8", "n9"), 40, 12), 5, "/home/ada") == path


@pytest.mark.parametrize("pattern", ["%J", "%s", "a%", "%q.txt", "%123j"])
def test_patterns_that_are_not_known_are_refused_and_not_part_of_a_name(pattern: str) -> None:
    with pytest.raises(BadInput, match=r"output: '%.*' is not known here: write %j, "):
        refuse_unsupported(job_spec({"run": "true", "output": pattern}))


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("--gpu-per-node=2", "did you mean 'gpus-per-node'"),
        ("--nodes=two", "line 2: --nodes: 'two' is not a whole number"),
        ("-N two", "line 2: --nodes: 'two' is not a whole number"),
        ("--signal=USR1@soon", "line 2: --signal: 'soon' is not a whole number"),
        ("--nodes", "--nodes needs a value"),
        ("--frobnicate", "line 2: unknown option 'frobnicate'"),
        ("--nodes=0", "line 2: --nodes: 0 is too few"),
        ("-G 0", "line 2: --gpus: 0 is too few"),
        ("--time=0", "line 2: --time: 0 is no time limit here: leave the option out"),
        ("--time=1:2:3:4", "line 2: --time: '1:2:3:4' is not a time"),
        ("--mem=lots", "line 2: --mem: 'lots' is not a size of memory"),
        ("--gres=fpga:1", "line 2: --gres=fpga:1: only gpu is known"),
        ("--gpus=3 -N 2", "does not divide over 2 nodes"),
        ("--gpus-per-node=2 --gres=gpu:4", "two ways that differ"),
        ("--dependency=aftercorr:3", "--dependency=aftercorr:3 is not known here: write afterok"),
        ("--dependency=after:3", "--dependency=after:3 is not known here"),
        ("--dependency=afterok:3?afterok:4", "is not known here"),
        (
            "--gpus-per-node=a100:2 --gres=gpu:h100:2",
            "line 2: --gres: the job asks for GPUs of type a100 and of type h100",
        ),
        ("--constraint='a&b|c'", "write a&b for both"),
        ("--constraint='[a|b]'", "is not known here: write"),
        ("--constraint='a*2'", "is not known here: write"),
        ("--mem=4G --mem-per-gpu=2G", "memory is asked for in another way too"),
        ("--begin=now+1hour", "--begin: jobs start as soon as they can"),
        ("nodes=2", "is not an option"),
        ("hetjob", "submit the parts as jobs of their own"),
        ("--gres=gpu:1 : --gres=gpu:2", "submit the parts as jobs of their own"),
        ("--exclusive", "--exclusive: jobs share nodes"),
        ("--nodelist=n1", "--nodelist: nodes cannot be chosen"),
        ("--export=MODE", "write its value too, MODE=VALUE"),
        ("--job-name='a", "No closing quotation.: close every quotation mark"),
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


def test_dependencies_types_and_features_are_obeyed(tmp_path: Path) -> None:
    lines = (
        "#SBATCH --dependency=afterok:1:2,afterany:3,afternotok:4,singleton\n#SBATCH -C ib&nvlink -H\n"
        "#SBATCH --gpus-per-node=h100:4 --cpus-per-gpu=8 --mem-per-gpu=64G --array=0-99:5%3\n"
    )
    read = read_script(script(tmp_path, lines))
    job = job_spec(read.fields)
    assert job.after == (1, 2, "any:3", "notok:4", "singleton")
    assert (job.constraints, job.hold, job.array) == (("ib", "nvlink"), True, "0-99:5%3")
    assert (job.resources.type, job.resources.accelerators, job.resources.cpus) == ("h100", 4, 32)
    assert job.resources.memory == pytest.approx(4 * 64 * 2**30 / 1e9)
    assert read.notes == []


# The options of sbatch by its manual (Slurm 24.05), with a value that each takes.
MANUAL = {
    "account": "a", "acctg-freq": "30", "array": "0-3", "batch": "x", "bb": "x", "bbf": "x", "begin": "now", "chdir": "/tmp",
    "cluster-constraint": "x", "clusters": "c", "comment": "x", "constraint": "x", "container": "x", "container-id": "x",
    "contiguous": None, "core-spec": "1", "cores-per-socket": "1", "cpu-freq": "low", "cpus-per-gpu": "1", "cpus-per-task": "1",
    "deadline": "x", "delay-boot": "1", "dependency": "singleton", "distribution": "block", "error": "x", "exclude": "x",
    "exclusive": None, "export": "ALL", "export-file": "x", "extra": "x", "extra-node-info": "1", "get-user-env": None, "gid": "1",
    "gpu-bind": "none", "gpu-freq": "low", "gpus": "1", "gpus-per-node": "1", "gpus-per-socket": "1", "gpus-per-task": "1",
    "gres": "gpu:1", "gres-flags": "x", "hint": "x", "hold": None, "ignore-pbs": None, "input": "x", "job-name": "x",
    "kill-on-invalid-dep": "yes", "licenses": "x", "mail-type": "ALL", "mail-user": "x", "mcs-label": "x", "mem": "1G",
    "mem-bind": "local", "mem-per-cpu": "1G", "mem-per-gpu": "1G", "mincpus": "1", "network": "x", "nice": "1", "no-kill": None,
    "no-requeue": None, "nodefile": "x", "nodelist": "x", "nodes": "1", "ntasks": "1", "ntasks-per-core": "1",
    "ntasks-per-gpu": "2", "ntasks-per-node": "1", "ntasks-per-socket": "1", "open-mode": "append", "output": "x",
    "overcommit": None, "oversubscribe": None, "parsable": None, "partition": "x", "prefer": "x", "priority": "1",
    "profile": "all", "propagate": "ALL", "qos": "x", "quiet": None, "reboot": None, "requeue": None, "reservation": "x",
    "resv-ports": "1", "segment": "1", "signal": "USR1@30", "sockets-per-node": "1", "spread-job": None, "stepmgr": None,
    "switches": "1", "test-only": None, "thread-spec": "1", "threads-per-core": "1", "time": "10", "time-min": "5", "tmp": "1G",
    "tres-bind": "x", "tres-per-task": "x", "uid": "1", "use-min-nodes": None, "verbose": None, "wait": None,
    "wait-all-nodes": "1", "wckey": "x", "wrap": "x",
}  # fmt: skip


@pytest.mark.parametrize("option", MANUAL)
def test_no_option_of_sbatch_is_dropped_in_silence(tmp_path: Path, option: str) -> None:
    value = MANUAL[option]
    line = f"#SBATCH --{option}" + ("" if value is None else f"={value}")
    plain = read_script(script(tmp_path, ""))
    if option in REFUSED:
        with pytest.raises(BadInput, match=f"--{option}: "):
            read_script(script(tmp_path, line))
        return
    read = read_script(script(tmp_path, line))
    fields = {name: value for name, value in read.fields.items() if name != "command"}
    obeyed = fields != {name: value for name, value in plain.fields.items() if name != "command"}
    assert obeyed != any(f"--{option}" in note for note in read.notes)
    job_spec(read.fields)
