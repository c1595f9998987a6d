"""Parts of a GPU, too many GPUs and absurd times are refused by every reader, with file, line and column."""

import pytest

from headway.errors import BadInput
from headway.workloads.load import load

# A good row of each format with marks for GPUs and a time, the names of both columns, and the line of the row.
FORMATS = {
    "headway": ("job_id,submit_s,gpus,duration_s\na,0,GPUS,TIME\n", "gpus", "duration_s", 2),
    "muri": (
        "trace,job_id,submit_s,num_gpus,duration_s,iteration_ms\n1,0,0,GPUS,TIME,4\n",
        "num_gpus",
        "duration_s",
        2,
    ),
    "helios": (
        "job_id,user,vc,gpu_num,state,submit_time,start_time,end_time,duration\n"
        "1,u,v,GPUS,COMPLETED,2020-06-09 18:41:01,,,TIME\n",
        "gpu_num",
        "duration",
        2,
    ),
    "acme": (
        "job_id,user,gpu_num,type,state,submit_time,start_time,end_time,duration,gpu_time\n"
        "57,u,GPUS,Eval,FAILED,2023-03-01 00:18:22+08:00,,,TIME,936\n",
        "gpu_num",
        "duration",
        2,
    ),
    "pai": ("j1,worker,GPUS,Terminated,1000.0,TIME,600.0,29.3,50.0,MISC\n", "inst_num", "end_time", 1),
    "openb": (
        "name,num_gpu,gpu_milli,qos,creation_time,deletion_time,scheduled_time\np0,GPUS,1000,LS,100,TIME,100\n",
        "num_gpu",
        "deletion_time",
        2,
    ),
    "tiresias": (
        "job_id,num_gpu,submit_time,iterations,model_name,duration\n0,GPUS,0,606,vgg19,TIME\n",
        "num_gpu",
        "duration",
        2,
    ),
    "gavel": ("LM (batch size 5)\tpython main.py\t--steps\t1\tTIME\t0.0\tGPUS\n", "gpus", "total_steps", 1),
    "swf": ("; c\n1 0 0 TIME GPUS -1 -1 8 100 -1 1 3 1 -1 2 -1 -1 -1\n", "allocated", "run", 2),
}


@pytest.mark.parametrize("name", list(FORMATS))
@pytest.mark.parametrize(
    ("given", "words"),
    [
        ("0.5", "0.5 is not a whole number of GPUs"),
        ("2.7", "2.7 is not a whole number of GPUs"),
        ("5000000000", "5000000000 is more than 10,000,000 GPUs"),
        ("99999999999", "99999999999 is more than 10,000,000 GPUs"),
    ],
)
def test_wrong_gpus(tmp_path, name: str, given: str, words: str) -> None:
    text, column, _, line = FORMATS[name]
    path = tmp_path / "t"
    path.write_text(text.replace("GPUS", given).replace("TIME", "5000"))
    with pytest.raises(BadInput) as raised:
        load(str(path))
    assert str(raised.value) == f"{path}, line {line}, column {column!r}: {words}"


@pytest.mark.parametrize("name", list(FORMATS))
def test_times_beyond_all_clocks(tmp_path, name: str) -> None:
    text, _, column, line = FORMATS[name]
    path = tmp_path / "t"
    path.write_text(text.replace("GPUS", "2").replace("TIME", "1e306"))
    with pytest.raises(BadInput) as raised:
        load(str(path))
    assert str(raised.value).startswith(f"{path}, line {line}, column {column!r}: ")
    assert "is more than 1e+12 seconds" in str(raised.value)
    path.write_text(text.replace("GPUS", "2").replace("TIME", "1e8"))
    assert load(str(path)).gpus.tolist() == [2]


def test_a_submission_beyond_all_clocks(tmp_path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("submit_s,gpus,duration_s\n0,1,1\n1e13,1,1\n")
    with pytest.raises(BadInput, match=r"line 3, column 'submit_s': 1e\+13 s is more than"):
        load(str(path))
