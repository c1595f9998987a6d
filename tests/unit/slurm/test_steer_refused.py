"""`headway steer` of somebody who may not: said once, with what is missing, and with an exit code."""

import os
from pathlib import Path

import pytest

from headway.cli.main import main

JOBS = [
    f"JobId={job} JobName=j{job} UserId=ada(1000) Priority=28 Nice=0 JobState=PENDING Reason=Priority Partition=main "
    "SubmitTime=2026-01-01T00:00:00 NumNodes=1 TresPerNode=gres:gpu:1"
    for job in range(1, 7)
]


def test_who_may_not_is_told_what_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "jobs").write_text("\n".join(JOBS) + "\n")
    command = tmp_path / "scontrol"
    refuses = 'update) echo "Invalid user id for job ${2#JobId=}" >&2; exit 1;;'
    command.write_text(
        f'#!/bin/sh\ncase "$*" in *"show job") cat {tmp_path}/jobs;; *) case "$1" in {refuses} esac;; esac\n'
    )
    command.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setenv("HEADWAY_DATA", str(tmp_path / "data"))
    monkeypatch.setattr("sys.argv", ["headway", "steer", "--slurm", "--once"])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 1
    out, err = capsys.readouterr()
    assert "6 jobs with GPUs wait (queue 0: 6, queue 1: 0); set 0" in out
    assert "job 1: scontrol: Invalid user id for job 1" in err
    assert "and 3 more jobs" in err
    assert "root, SlurmUser and operators" in err
    assert "Slurm refused to change 6 jobs" in err
