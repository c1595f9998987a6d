"""Damaged traces of every format: reading either works or ends in one line of bad input, never in another error."""

import gzip
import json

import numpy as np
import pytest

from headway.errors import BadInput
from headway.workloads.load import load
from headway.workloads.workload import Workload

PHILLY = [
    {
        "status": "Pass",
        "vc": "v",
        "jobid": f"app_{index}",
        "attempts": [
            {
                "start_time": "2017-10-07 01:12:09",
                "end_time": "2017-10-07 01:13:23",
                "detail": [{"ip": "m4", "gpus": ["gpu0", "gpu1"]}],
            }
        ],
        "submitted_time": "2017-10-07 01:11:39",
        "user": "u",
    }
    for index in range(2)
]
SAMPLES = {
    "headway": "job_id,submit_s,gpus,duration_s,user\n" + "".join(f"j{i},{i},{i + 1},{i}.5,u\n" for i in range(5)),
    "muri": "trace,job_id,submit_s,num_gpus,duration_s,model,iteration_ms\n1,0,0,1,100,dqn,49\n2,0,0,4,300,bert,49\n",
    "philly": json.dumps(PHILLY, indent=1),
    "helios": "job_id,user,vc,gpu_num,state,submit_time,start_time,end_time,duration\n"
    "1,u,v,1,COMPLETED,2020-06-09 18:41:01,2020-06-09 18:41:01,2020-06-09 18:41:05,4\n",
    "acme": "job_id,user,gpu_num,type,state,submit_time,start_time,end_time,duration,gpu_time\n"
    "57,u,8,Eval,FAILED,2023-03-01 00:18:22+08:00,2023-03-01 00:18:54+08:00,2023-03-01 00:20:51+08:00,117,936\n",
    "pai": "j1,worker,2.0,Terminated,1000.0,1600.0,600.0,29.3,50.0,MISC\nj2,ps,1.0,Failed,990.0,,600.0,29.3,,\n",
    "openb": "name,num_gpu,gpu_milli,qos,creation_time,deletion_time,scheduled_time\np0,1,1000,LS,100,700,100\n",
    "tiresias": "job_id,num_gpu,submit_time,iterations,model_name,duration\n0,1,0,606,vgg19,164\n",
    "gavel": "LM (batch size 5)\tpython main.py\t--steps\t1\t1671228\t0.000000\t1\n" * 2,
    "swf": "; MaxProcs: 8\n" + "1 0 0 60 8 -1 -1 8 100 -1 1 3 1 -1 2 -1 -1 -1\n",
}
# Bytes that matter to some parser.
TOUCHY = b',"\n\r\t;-.{}[]:09eE\x00\xff\xc3 '


def damaged(content: bytes, rng: np.random.Generator) -> bytes:
    """The content with one to four bytes changed, taken out or put in, or its end cut off."""
    changed = bytearray(content)
    for _ in range(rng.integers(1, 5)):
        place = int(rng.integers(0, max(1, len(changed))))
        what = rng.integers(0, 4)
        byte = TOUCHY[rng.integers(0, len(TOUCHY))]
        if what == 0:
            changed[place : place + 1] = bytes([byte])
        elif what == 1:
            changed[place:place] = bytes([byte])
        elif what == 2:
            del changed[place : place + int(rng.integers(1, 6))]
        else:
            del changed[place:]
    return bytes(changed)


def loaded(path: str) -> Workload | None:
    """The jobs, or None where the file is refused in one line."""
    try:
        return load(path)
    except BadInput as error:
        if "\n" in str(error):
            raise AssertionError(f"more than one line: {error!r}") from error
        return None


@pytest.mark.parametrize("name", list(SAMPLES))
def test_damage_is_bad_input_or_harmless(tmp_path, rounds, name: str) -> None:
    rng = np.random.default_rng(sum(name.encode()))
    path = tmp_path / "t"
    path.write_text(SAMPLES[name])
    assert len(load(str(path))) >= 1
    packed = gzip.compress(SAMPLES[name].encode(), mtime=0)
    for number in range(rounds(150, 5000)):
        path.write_bytes(damaged(packed if number % 10 == 0 else SAMPLES[name].encode(), rng))
        jobs = loaded(str(path))
        if jobs is None:
            continue
        assert (jobs.gpus >= 1).all()
        assert (jobs.duration_s > 0).all()
        assert np.isfinite(jobs.duration_s).all()
        assert (np.diff(jobs.submit_s) >= 0).all()
