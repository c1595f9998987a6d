"""Every format, from small files written by its published description."""

import json

import numpy as np
import pytest

from headway.errors import BadInput
from headway.workloads.load import load


def written(tmp_path, name: str, text: str) -> str:
    path = tmp_path / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return str(path)


def test_headways_own_csv_with_all_columns_and_rows_out_of_order(tmp_path) -> None:
    text = "job_id,submit_s,gpus,duration_s,user,queue,model\nb,30,2,60.5,ann,q1,VGG16\na,10,1,5,bob,,\n"
    jobs = load(written(tmp_path, "t.csv", text))
    assert jobs.job_id.tolist() == ["a", "b"]
    assert jobs.submit_s.tolist() == [10, 30]
    assert jobs.gpus.tolist() == [1, 2]
    assert jobs.duration_s.tolist() == [5, 60.5]
    assert jobs.user.tolist() == ["bob", "ann"]
    assert jobs.queue.tolist() == ["", "q1"]
    assert jobs.model.tolist() == ["", "VGG16"]


def test_the_fewest_columns_get_row_numbers_as_ids(tmp_path) -> None:
    jobs = load(written(tmp_path, "t.csv", "submit_s,num_gpus,duration_s\n0,1,5\n\n3,2,6\n"))
    assert jobs.job_id.tolist() == ["0", "1"]
    assert jobs.user.tolist() == ["", ""]


def test_quotes_spaces_and_windows_lines(tmp_path) -> None:
    jobs = load(written(tmp_path, "t.csv", 'job_id, submit_s ,gpus,duration_s\r\n"a,b", 0 ,1, 2.5\r\n'))
    assert jobs.job_id.tolist() == ["a,b"]
    assert jobs.duration_s.tolist() == [2.5]


def test_blanks_around_values_and_blank_lines_are_nothing(tmp_path) -> None:
    text = '\n  \njob_id, submit_s, gpus, duration_s, user\na, 0, 1, 2.5, ann \n   \nb, 1, 2, 3, "x, y"\n  \n'
    jobs = load(written(tmp_path, "t.csv", text))
    assert jobs.job_id.tolist() == ["a", "b"]
    assert jobs.user.tolist() == ["ann", "x, y"]


def test_a_column_that_is_there_twice_is_refused(tmp_path) -> None:
    with pytest.raises(BadInput, match="column 'gpus': it is there twice"):
        load(written(tmp_path, "t.csv", "submit_s,gpus,duration_s,gpus\n0,1,5,2\n"))


def test_standard_workload_format_between_tabs(tmp_path) -> None:
    line = "1 0 0 60 8 -1 -1 8 100 -1 1 3 1 -1 2 -1 -1 -1".replace(" ", "\t")
    assert load(written(tmp_path, "t.swf", f"; c\n{line}\n")).gpus.tolist() == [8]


def test_offsets_of_time_zones_are_applied(tmp_path) -> None:
    row = "{},u,1,Eval,COMPLETED,{},,,60,1\n"
    head = "job_id,user,gpu_num,type,state,submit_time,start_time,end_time,duration,gpu_time\n"
    times = (
        "2023-05-17 11:00:00+00:00",
        "2023-05-17 19:03:00+08:00",
        "2023-05-17 06:04:00-0500",
        "2023-05-17 11:05:00Z",
    )
    text = head + "".join(row.format(i, time) for i, time in enumerate(times))
    assert load(written(tmp_path, "t.csv", text)).submit_s.tolist() == [0, 180, 240, 300]
    # The same one value at a time, since one of them is absent in words.
    text += row.format(9, "None")
    assert load(written(tmp_path, "t.csv", text)).submit_s.tolist() == [0, 180, 240, 300]


def test_vc_is_the_queue_of_a_csv_without_one(tmp_path) -> None:
    text = "submit_s,gpus,duration_s,vc,submit_time\n0,1,10,a,x\n1,2,10,b,y\n"
    path = written(tmp_path, "t.csv", text)
    assert load(path).queue.tolist() == ["a", "b"]
    assert load(path).caveats == ()  # not taken for the copy of Philly
    assert load(f"{path}?vc=b").gpus.tolist() == [2]


def test_ties_keep_the_order_of_the_file(tmp_path) -> None:
    rows = "".join(f"j{i},{i % 3},1,1\n" for i in range(9))
    jobs = load(written(tmp_path, "t.csv", "job_id,submit_s,gpus,duration_s\n" + rows))
    assert jobs.job_id.tolist() == ["j0", "j3", "j6", "j1", "j4", "j7", "j2", "j5", "j8"]


MURI = """trace,job_id,submit_s,num_gpus,duration_s,model,batch_size,iterations,iteration_ms,resource0_ms
1,0,0,1,100,dqn,128,10,490,446
1,1,5,8,200,vgg16,64,10,490,446
2,0,0,4,300,bert,4,10,490,446
"""


def test_several_traces_in_one_file(tmp_path) -> None:
    path = written(tmp_path, "muri.csv", MURI)
    both = load(path)
    assert sorted(both.job_id.tolist()) == ["1-0", "1-1", "2-0"]
    assert any("side by side" in caveat for caveat in both.caveats)
    second = load(f"{path}?trace=2")
    assert second.duration_s.tolist() == [300]
    assert second.model.tolist() == ["bert"]
    assert not any("side by side" in caveat for caveat in second.caveats)
    with pytest.raises(BadInput, match="one of: 1, 2"):
        load(f"{path}?trace=7")


def philly_job(**changes: object) -> dict:
    attempts = [
        {
            "start_time": "2017-10-07 01:12:00",
            "end_time": "2017-10-07 01:13:00",
            "detail": [{"ip": "m47", "gpus": ["gpu0", "gpu1"]}, {"ip": "m48", "gpus": ["gpu0", "gpu1"]}],
        },
        {
            "start_time": "2017-10-07 02:00:00",
            "end_time": "2017-10-07 03:00:00",
            "detail": [{"ip": "m1", "gpus": ["gpu0", "gpu1", "gpu2", "gpu3"]}],
        },
    ]
    job = {
        "status": "Pass",
        "vc": "ee9e8c",
        "jobid": "application_1",
        "attempts": attempts,
        "submitted_time": "2017-10-07 01:11:39",
        "user": "ce2f4c",
    }
    return job | changes


def test_philly_job_log(tmp_path) -> None:
    still_running = [
        {"start_time": "2017-10-08 00:00:00", "end_time": None, "detail": [{"ip": "m1", "gpus": ["gpu0"]}]}
    ]
    log = [
        philly_job(),
        philly_job(jobid="application_2", submitted_time="2017-10-07 01:00:00", vc="b436b2", status="Killed"),
        philly_job(jobid="application_3", attempts=[]),
        philly_job(jobid="application_4", attempts=still_running),
        philly_job(jobid="application_5", submitted_time="None"),
    ]
    jobs = load(written(tmp_path, "cluster_job_log", json.dumps(log, indent=1)))
    assert jobs.job_id.tolist() == ["application_2", "application_1"]
    assert jobs.submit_s.tolist() == [0, 11 * 60 + 39]
    assert jobs.gpus.tolist() == [4, 4]
    assert jobs.duration_s.tolist() == [3660, 3660]
    assert jobs.queue.tolist() == ["b436b2", "ee9e8c"]
    assert jobs.user.tolist() == ["ce2f4c", "ce2f4c"]
    assert jobs.skipped == {"no submit time": 1, "no GPUs": 1, "no duration": 1}


HELIOS = """job_id,user,vc,gpu_num,cpu_num,node_num,state,submit_time,start_time,end_time,duration,queue
11,uA,vcX,1,1,1,COMPLETED,2020-06-09 18:41:01,2020-06-09 18:41:01,2020-06-10 04:55:09,36848,0
12,uB,vcY,16,64,2,FAILED,2020-06-09 18:41:27,2020-06-09 18:41:37,2020-06-09 18:45:46,249,10
13,uC,vcX,0,4,1,COMPLETED,2020-06-09 18:41:28,2020-06-09 18:41:28,2020-06-09 18:41:38,10,0
14,uC,vcX,8,4,1,CANCELLED,2020-06-09 18:42:28,,,0,0
"""


def test_helios_cluster_log(tmp_path) -> None:
    path = written(tmp_path, "cluster_log.csv", HELIOS)
    jobs = load(path)
    assert jobs.job_id.tolist() == ["11", "12"]
    assert jobs.submit_s.tolist() == [0, 26]
    assert jobs.gpus.tolist() == [1, 16]
    assert jobs.duration_s.tolist() == [36848, 249]
    assert jobs.user.tolist() == ["uA", "uB"]
    assert jobs.skipped == {"no GPUs": 1, "no duration": 1}
    assert load(f"{path}?vc=vcY").job_id.tolist() == ["12"]
    with pytest.raises(BadInput, match="unknown vc 'vcZ': did you mean 'vcY'"):
        load(f"{path}?vc=vcZ")


KALOS_HEADER = (
    "job_id,user,node_num,gpu_num,cpu_num,mem_per_pod_GB,shared_mem_per_pod,type,state,"
    "submit_time,start_time,end_time,fail_time,stop_time,duration,queue,gpu_time\n"
)
KALOS = KALOS_HEADER + (
    "dlc1,u1,8,64,960,1000,100.0,Pretrain,FAILED,2023-05-17 11:00:58+00:00,2023-05-17 11:01:08+00:00,"
    "2023-05-17 11:01:16+00:00,2023-05-17 11:01:16+00:00,,18,10.0,1152.0\n"
    "dlc2,u2,1,8,960,1000,100.0,Eval,CANCELLED,2023-05-17 11:01:58+00:00,,,,,82,12.0,656.0\n"
)
SEREN = (
    "job_id,user,node_num,gpu_num,cpu_num,type,state,submit_time,start_time,end_time,duration,queue,gpu_time\n"
    "57,u5,1,8,128,Other,FAILED,2023-03-01 00:18:22+08:00,2023-03-01 00:18:54+08:00,2023-03-01 00:20:51+08:00,117,32,936.0\n"
)


def test_acme_kalos_takes_the_run_time_not_its_duration_column(tmp_path) -> None:
    jobs = load(written(tmp_path, "trace_kalos.csv", KALOS))
    assert jobs.gpus.tolist() == [64, 8]
    assert jobs.duration_s.tolist() == [8, 82]
    assert jobs.submit_s.tolist() == [0, 60]
    assert jobs.queue.tolist() == ["Pretrain", "Eval"]
    assert any("1 rows have no start or end" in caveat for caveat in jobs.caveats)


def test_acme_seren(tmp_path) -> None:
    jobs = load(written(tmp_path, "trace_seren.csv", SEREN))
    assert (jobs.job_id.tolist(), jobs.duration_s.tolist()) == (["57"], [117])


PAI_TASKS = """j1,worker,2.0,Terminated,1000.0,1600.0,600.0,29.3,50.0,MISC
j1,ps,1.0,Terminated,990.0,1700.0,600.0,29.3,,
j2,tensorflow,1.0,Failed,2000.0,2100.0,600.0,29.3,800.0,V100
j3,worker,1.0,Running,3000.0,,600.0,29.3,100.0,T4
j1,evaluator,1.0,Terminated,1100.0,1650.0,600.0,29.3,100.0,MISC
"""
PAI_JOBS = "j1,i1,ann,Terminated,900.0,1700.0\nj2,i2,bob,Failed,1990.0,2100.0\nj3,i3,cid,Running,2990.0,\n"
PAI_HEADER = "job_name,task_name,inst_num,status,start_time,end_time,plan_cpu,plan_mem,plan_gpu,gpu_type\n"


@pytest.mark.parametrize("header", ["", PAI_HEADER])
def test_pai_tasks_become_jobs(tmp_path, header: str) -> None:
    jobs = load(written(tmp_path, "pai_task_table.csv", header + PAI_TASKS))
    assert jobs.job_id.tolist() == ["j1", "j2"]
    assert jobs.gpus.tolist() == [3, 8]
    assert jobs.duration_s.tolist() == [650, 100]
    assert jobs.submit_s.tolist() == [0, 1000]
    assert jobs.skipped == {"no duration": 1}


def test_pai_tables_quoted_or_with_more_columns_or_without_gpus(tmp_path) -> None:
    plain = load(written(tmp_path, "pai_task_table.csv", PAI_TASKS))
    quoted = "".join(",".join(f'"{value}"' for value in row.split(",")) + "\n" for row in PAI_TASKS.splitlines())
    wider = PAI_HEADER.replace("\n", ",note\n") + PAI_TASKS.replace("\n", ",x\n")
    for text in (quoted, wider):
        jobs = load(written(tmp_path, "pai_task_table.csv", text))
        assert jobs.job_id.tolist() == plain.job_id.tolist()
        assert jobs.duration_s.tolist() == plain.duration_s.tolist()
    processors = PAI_TASKS + "j4,worker,1.0,Terminated,1000.0,1600.0,600.0,29.3,,\n"
    jobs = load(written(tmp_path, "pai_task_table.csv", processors))
    assert jobs.skipped == {"no GPUs": 1, "no duration": 1}


def test_pai_submissions_and_users_come_from_the_job_table(tmp_path) -> None:
    written(tmp_path, "pai_job_table.csv", PAI_JOBS)
    jobs = load(written(tmp_path, "pai_task_table.csv", PAI_TASKS))
    assert jobs.submit_s.tolist() == [0, 1090]
    assert jobs.user.tolist() == ["ann", "bob"]
    assert jobs.skipped == {"no duration": 1}
    with pytest.raises(BadInput, match=r"give pai_task_table\.csv"):
        load(str(tmp_path / "pai_job_table.csv"))


OPENB = """name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,deletion_time,scheduled_time
p0,12000,16384,1,1000,,LS,Running,100,700,100
p1,6000,12288,1,460,V100M16|V100M32,BE,Failed,160,260,170
p2,6000,12288,0,0,,LS,Running,170,260,170
p3,6000,12288,8,1000,,LS,Pending,180,380,
"""


def test_openb_pods(tmp_path) -> None:
    jobs = load(written(tmp_path, "openb_pod_list.csv", OPENB))
    assert jobs.job_id.tolist() == ["p0", "p1", "p3"]
    assert jobs.gpus.tolist() == [1, 1, 8]
    assert jobs.duration_s.tolist() == [600, 100, 200]
    assert jobs.submit_s.tolist() == [0, 60, 80]
    assert jobs.queue.tolist() == ["LS", "BE", "LS"]
    assert jobs.skipped == {"no GPUs": 1}
    assert jobs.caveats[0].startswith("1 pods")
    assert "1 pods were never scheduled" in jobs.caveats[1]


def test_tiresias_simulator_csv(tmp_path) -> None:
    text = "job_id,num_gpu,submit_time,iterations,model_name,duration,interval\n0,1,0,606,vgg19,164,30\n1,8,30,133,vgg11,147,23\n"
    jobs = load(written(tmp_path, "60_job.csv", text))
    assert jobs.gpus.tolist() == [1, 8]
    assert jobs.submit_s.tolist() == [0, 30]
    assert jobs.duration_s.tolist() == [164, 147]
    assert jobs.model.tolist() == ["vgg19", "vgg11"]


def test_gavel_trace_with_philly_rates(tmp_path) -> None:
    line = "LM (batch size 5)\tcd %s && python main.py --x\t--steps\t1\t1671228\t{}.000000\t{}\n"
    jobs = load(written(tmp_path, "vc.trace", line.format(0, 1) + line.format(60, 4)))
    assert jobs.duration_s.tolist() == [10_000, 10_000]
    assert jobs.gpus.tolist() == [1, 4]
    assert jobs.submit_s.tolist() == [0, 60]
    assert jobs.model.tolist() == ["LM (batch size 5)"] * 2


GAVEL_NEW = "ResNet-18 (batch size 16)\tpython3 main.py\t{}--num_steps\t1\t5000\t{}\t1.0\t-1.0\t{}\n"


@pytest.mark.parametrize("folder", ["", "/data/gavel\t"])
def test_newer_gavel_traces_need_the_table_that_made_them(tmp_path, folder: str) -> None:
    path = written(tmp_path, "new.trace", GAVEL_NEW.format(folder, 1, 0.5) + GAVEL_NEW.format(folder, 2, 9))
    with pytest.raises(BadInput, match=r"put simulation_throughputs\.json beside it or give \?throughputs=FILE"):
        load(path)
    table = {"v100": {f"('ResNet-18 (batch size 16)', {n})": {"null": 25.0 * n} for n in (1, 2)}}
    written(tmp_path, "simulation_throughputs.json", json.dumps(table))
    jobs = load(path)
    assert jobs.duration_s.tolist() == [200, 100]
    assert jobs.submit_s.tolist() == [0.5, 9]
    rows = "worker_type,job_type,num_gpus,steps_per_s\nk80,ResNet-18 (batch size 16),1,1\n"
    rows += "v100,ResNet-18 (batch size 16),1,50\nv100,ResNet-18 (batch size 16),2,50\n"
    other = written(tmp_path, "mine.csv", rows)
    assert load(f"{path}?throughputs={other}").duration_s.tolist() == [100, 100]
    written(tmp_path, "mine.csv", rows[: rows.rindex("v100")])
    with pytest.raises(BadInput, match=r"line 2, column 'job_type': 'ResNet-18 .batch size 16.' on 2 GPUs has no"):
        load(f"{path}?throughputs={other}")


def test_compact_gavel_csv(tmp_path) -> None:
    text = "vc,idx,submit_s,num_gpus,model,batch_size,total_steps\nx,0,0,1,A3C,,8233\ny,0,0,32,LM,80,439036\n"
    path = written(tmp_path, "g.csv", text)
    jobs = load(path)
    assert jobs.job_id.tolist() == ["x-0", "y-0"]
    assert jobs.duration_s.tolist() == [1000, 10_000]
    assert load(f"{path}?vc=y").gpus.tolist() == [32]


SWF = """; Version: 2.2
; Computer: A "small" cluster
;   MaxProcs: 128

  1    0   10   60   8  -1 -1    8   100 -1 1 3 1 -1 2 -1 -1 -1
  2   30   -1   90  -1  -1 -1   16   100 -1 1 4 1 -1 -1 -1 -1 -1 \n\
  3   31    0   -1   4  -1 -1    4   100 -1 5 4 1 -1 2 -1 -1 -1
  4   32    0   50   0  -1 -1   -1   100 -1 1 -1 1 -1 2 -1 -1 -1
"""


def test_standard_workload_format(tmp_path) -> None:
    jobs = load(written(tmp_path, "log.swf", SWF))
    assert jobs.job_id.tolist() == ["1", "2"]
    assert jobs.gpus.tolist() == [8, 16]
    assert jobs.duration_s.tolist() == [60, 90]
    assert jobs.user.tolist() == ["3", "4"]
    assert jobs.queue.tolist() == ["2", ""]
    assert jobs.skipped == {"no GPUs": 1, "no duration": 1}


def test_more_rows_than_a_block(tmp_path) -> None:
    count = 10_001
    rows = "".join(f"{i},{count - i},{1 + i % 8},{i + 1}\n" for i in range(count))
    jobs = load(written(tmp_path, "t.csv", "job_id,submit_s,gpus,duration_s\n" + rows))
    assert len(jobs) == count
    assert jobs.job_id[0] == str(count - 1)
    assert jobs.duration_s.sum() == count * (count + 1) / 2
    assert np.array_equal(jobs.gpus, (1 + np.arange(count) % 8)[::-1])
