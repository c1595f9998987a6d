"""Bad traces: one line that names the file, the line and the column, and what would be right."""

import gzip
import json
import tracemalloc

import pytest
import zstandard

from headway.errors import BadInput
from headway.workloads.load import load

HEADER = "job_id,submit_s,gpus,duration_s\n"
GOOD = HEADER + "a,0,1,10\nb,5,2,20\n"


def refusal(path: object, **options: bool) -> str:
    with pytest.raises(BadInput) as raised:
        load(str(path), **options)
    message = str(raised.value)
    assert "\n" not in message
    return message


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        ("a,0,1,10\nb,x,2,20\n", "line 3, column 'submit_s': 'x' is not a number"),
        ("a,0,1,10\n\nb,5,two,20\n", "line 4, column 'gpus': 'two' is not a number"),
        ("a,0,1,1e400\n", "line 2, column 'duration_s': '1e400' is not a finite number"),
        ("a,0,1,inf\n", "line 2, column 'duration_s': 'inf' is not a finite number"),
        ("a,0,1,10\nb,-5,2,20\n", "line 3, column 'submit_s': -5 is negative"),
        ("a,0,-1,10\n", "line 2, column 'gpus': -1 is negative"),
        ("a,0,1,-0.5\n", "line 2, column 'duration_s': -0.5 is negative"),
        ("a,0,1.5,10\n", "line 2, column 'gpus': 1.5 is not a whole number of GPUs"),
        ("a,0,9999999999,10\n", "line 2, column 'gpus': 9999999999 is more than 10,000,000 GPUs"),
        (
            'a,0,1,10\n"b,5,2,20\nc,6,1,1\n',
            "line 3, column 'submit_s': has no value: 1 values for 4 columns; is a quote",
        ),
        ("a,0,1_0,10\n", "line 2, column 'gpus': '1_0' is not a number"),
        ("a,0,\u0661,10\n", "line 2, column 'gpus': '\u0661' is not a number"),
        ("a,0,1,10\nb,5,2\n", "line 3, column 'duration_s': has no value: 3 values for 4 columns"),
        ("a,0,1,10\nb,5,2,20,7\n", "line 3, column 5: is one too many: 5 values for 4 columns"),
        ("a,0,1,10\nb,5,2,20\na,6,1,1\n", "job 'a' is there twice: line 2 and line 4"),
        ("", "the trace is empty"),
        ("\n\n", "the trace is empty"),
        ("a,0,0,10\n", "no job is left to run (1 with no GPUs)"),
    ],
)
def test_bad_rows(tmp_path, rows: str, words: str) -> None:
    path = tmp_path / "t.csv"
    path.write_text(HEADER + rows)
    message = refusal(path)
    assert message.startswith(str(path))
    assert words in message


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        ("0,4,10,2\n0,4,10,1.5\n", "line 3, column 'nodes': 1.5 is not a number of nodes: write 1 or more, or nothing"),
        ("0,4,10,-1\n", "line 2, column 'nodes': -1 is not a number of nodes"),
        ("0,4,10,3\n", "line 2, column 'nodes': 3 nodes do not divide 4 GPUs: write the GPUs of all nodes"),
        ("0,4,10,two\n", "line 2, column 'nodes': 'two' is not a number"),
    ],
)
def test_bad_numbers_of_nodes(tmp_path, rows: str, words: str) -> None:
    path = tmp_path / "t.csv"
    path.write_text("submit_s,gpus,duration_s,nodes\n" + rows)
    message = refusal(path)
    assert message.startswith(str(path))
    assert words in message


def test_a_bad_value_far_into_the_file_names_its_line(tmp_path) -> None:
    path = tmp_path / "t.csv"
    path.write_text(HEADER + "".join(f"j{i},{i},1,1\n" for i in range(9000)) + "k,1,1,oops\n")
    assert "line 9002, column 'duration_s': 'oops'" in refusal(path)


@pytest.mark.parametrize(
    ("header", "words"),
    [
        (
            "job_id,submit_s,gpus,time_s",
            "lacks the column 'duration_s'; its columns are job_id, submit_s, gpus, time_s",
        ),
        ("job_id,submit_s,duration_s", "lacks the column 'gpus'"),
        ("submit_s,num_gpus", "lacks the column 'duration_s'"),
        ("job_id,submit_s,gpu,duration_s", "lacks the column 'gpus' (rename 'gpu'?)"),
        ("Submit_S,GPUs,duration_s", "'submit_s' (rename 'Submit_S'?), 'gpus' (rename 'GPUs'?)"),
        ("job_id;submit_s;gpus;duration_s", "the columns are between semicolons: separate them with commas"),
        ("job_id\tsubmit_s\tgpus\tduration_s\tuser\tqueue\tmodel", "between tabs: separate them with commas"),
        ("job_id,user,vc,gpu_num,state,submit_time,start_time,end_time,queue", "Helios cluster_log.csv it lacks"),
        ("job_id,num_gpu,submit_time,iterations,model_name", "Tiresias simulator CSV it lacks the column 'duration'"),
    ],
)
def test_a_missing_column_is_named_with_the_columns_found(tmp_path, header: str, words: str) -> None:
    path = tmp_path / "t.csv"
    path.write_text(header + "\n1,2,3\n")
    assert words in refusal(path)


def test_no_known_format(tmp_path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("dear diary\n")
    message = refusal(path)
    assert "in no known format" in message
    assert "submit_s, gpus, duration_s" in message


def test_files_that_are_not_there(tmp_path) -> None:
    assert "no such file" in refusal(tmp_path / "missing.csv")
    assert "cannot be read: File name too long" in refusal("x" * 5000)
    assert "is a folder" in refusal(tmp_path)
    assert "did you mean synthetic:tiresias-480" in refusal("tiresias-480")


@pytest.mark.parametrize("content", [b"", b"  \n \n", gzip.compress(b"", mtime=0)], ids=["nothing", "blank", "packed"])
def test_empty_files(tmp_path, content: bytes) -> None:
    path = tmp_path / "t.csv"
    path.write_bytes(content)
    assert "the trace is empty" in refusal(path)


def test_packed_files_are_told_by_content_and_read_the_same(tmp_path) -> None:
    plain = tmp_path / "t.csv"
    plain.write_text(GOOD)
    frames = zstandard.compress(GOOD[:20].encode()) + zstandard.compress(GOOD[20:].encode())
    packed = {"t.gz": gzip.compress(GOOD.encode()), "t.zst": zstandard.compress(GOOD.encode()), "two.zst": frames}
    for name, content in packed.items():
        (tmp_path / name).write_bytes(content)
        (tmp_path / "no_suffix").write_bytes(content)
        for path in (tmp_path / name, tmp_path / "no_suffix"):
            assert load(str(path)).duration_s.tolist() == load(str(plain)).duration_s.tolist() == [10, 20]


@pytest.mark.parametrize("keep", [3, 10, 40, -9, -1])
def test_truncated_gzip(tmp_path, keep: int) -> None:
    path = tmp_path / "t.csv.gz"
    path.write_bytes(gzip.compress(GOOD.encode() * 50)[:keep])
    assert "cut short" in refusal(path)


def test_damaged_gzip(tmp_path) -> None:
    content = bytearray(gzip.compress(GOOD.encode() * 50))
    content[len(content) // 2] ^= 0xFF
    path = tmp_path / "t.csv.gz"
    path.write_bytes(bytes(content))
    assert "damaged" in refusal(path)


def test_truncated_zst(tmp_path) -> None:
    path = tmp_path / "t.csv.zst"
    content = zstandard.compress(GOOD.encode() * 50)
    for keep in (5, len(content) // 2, len(content) - 1):
        path.write_bytes(content[:keep])
        assert "cut short" in refusal(path)
    path.write_bytes(content[:4] + b"\xff" * 40)
    assert "damaged" in refusal(path)


PACK = {
    "plain": lambda raw: raw,
    "gzip": lambda raw: gzip.compress(raw, mtime=0),
    "two gzip members": lambda raw: gzip.compress(raw[:99], mtime=0) + gzip.compress(raw[99:], mtime=0),
    "zst": zstandard.compress,
    "two zst frames": lambda raw: zstandard.compress(raw[:99]) + zstandard.compress(raw[99:]),
}


@pytest.mark.parametrize("pack", PACK.values(), ids=PACK)
def test_the_limit_is_that_of_the_unpacked_trace(tmp_path, monkeypatch, pack) -> None:
    raw = (HEADER + "".join(f"j{i},{i},1,1\n" for i in range(5000))).encode()
    path = tmp_path / "t.csv"
    path.write_bytes(pack(raw))
    monkeypatch.setenv("HEADWAY_MAX_TRACE", f"{len(raw)}B")
    assert len(load(str(path)).gpus) == 5000
    monkeypatch.setenv("HEADWAY_MAX_TRACE", f"{len(raw) - 1}B")
    message = refusal(path)
    assert f"the trace is longer than {len(raw) - 1:,} bytes once unpacked" in message
    assert "HEADWAY_MAX_TRACE=" in message
    monkeypatch.setenv("HEADWAY_MAX_TRACE", "lots")
    assert "HEADWAY_MAX_TRACE: 'lots' is not a size" in refusal(path)


@pytest.mark.parametrize("pack", PACK.values(), ids=PACK)
@pytest.mark.parametrize("limit", ["512MiB", "1000TiB", "1e30TiB"])
def test_a_short_trace_takes_little_memory_under_any_limit(tmp_path, monkeypatch, pack, limit: str) -> None:
    """The memory for the limit was reserved at once: 1000TiB was not enough memory for any trace."""
    path = tmp_path / "t.csv"
    path.write_bytes(pack(GOOD.encode()))
    monkeypatch.setenv("HEADWAY_MAX_TRACE", limit)
    tracemalloc.start()
    try:
        load(str(path))
        assert tracemalloc.get_traced_memory()[1] < 64 << 20
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("pack", ["gzip", "zst"])
def test_no_more_than_the_limit_is_unpacked(tmp_path, monkeypatch, pack: str) -> None:
    """A gibibyte of zeros, packed: what is held in memory is some multiple of the limit, not of the content."""
    path = tmp_path / "t.csv"
    zeros = bytes(1 << 20)
    writer = {"gzip": gzip.open, "zst": zstandard.open}[pack]
    with writer(path, "wb") as packed:
        for _ in range(1 << 10):
            packed.write(zeros)
    monkeypatch.setenv("HEADWAY_MAX_TRACE", "8MiB")
    tracemalloc.start()
    try:
        assert "longer than 8 MiB once unpacked" in refusal(path)
        assert tracemalloc.get_traced_memory()[1] < 128 << 20
    finally:
        tracemalloc.stop()


def test_archives_are_named(tmp_path) -> None:
    import tarfile

    plain = tmp_path / "t.csv"
    plain.write_text(GOOD)
    with tarfile.open(tmp_path / "t.tar.gz", "w:gz") as archive:
        archive.add(plain, "t.csv")
    assert "unpack it" in refusal(tmp_path / "t.tar.gz")


def test_encodings(tmp_path) -> None:
    path = tmp_path / "t.csv"
    row = "job_id,submit_s,gpus,duration_s,user\na,0,1,10,Jürgen\n"
    for encoding in ("utf-8", "utf-8-sig", "utf-16"):
        path.write_bytes(row.encode(encoding))
        assert load(str(path)).user.tolist() == ["Jürgen"]
    path.write_bytes(row.encode() + "b,1,1,10,Jürgen\n".encode("latin-1"))
    assert "line 3: byte 0xfc at position 11 is not utf-8" in refusal(path)


SKIPPED = HEADER + "a,0,1,10\nb,1,0,10\nc,2,1,0\nd,3,1,\ne,4,,5\nf,,1,5\n"


def test_rows_that_cannot_run_are_counted_or_refused(tmp_path) -> None:
    path = tmp_path / "t.csv"
    path.write_text(SKIPPED)
    jobs = load(str(path))
    assert jobs.job_id.tolist() == ["a"]
    assert jobs.skipped == {"no submit time": 1, "no GPUs": 2, "no duration": 2}
    assert "line 7, column 'submit_s': job f has no submit time" in refusal(path, strict=True)
    path.write_text(HEADER + "a,0,1,10\nb,1,0,10\n")
    assert "line 3, column 'gpus': job b has no GPUs" in refusal(path, strict=True)
    path.write_text(GOOD)
    assert len(load(str(path), strict=True)) == 2


def test_unknown_options_of_a_file(tmp_path) -> None:
    path = tmp_path / "t.csv"
    path.write_text(GOOD)
    assert "unknown option of CSV of Headway 'vx': did you mean 'vc'?" in refusal(f"{path}?vx=1")
    assert "not NAME=VALUE" in refusal(f"{path}?vc")
    assert "unknown vc 'q': the trace has no queues" in refusal(f"{path}?vc=q")


def test_a_table_of_throughputs_that_is_not_there(tmp_path) -> None:
    path = tmp_path / "t.trace"
    path.write_text("LM (batch size 5)\tpython main.py\t--steps\t1\t1671228\t0.0\t1\n")
    assert "no such file; throughputs= names a table" in refusal(f"{path}?throughputs={tmp_path}/nope")


def test_a_key_given_twice_in_a_table_of_throughputs(tmp_path) -> None:
    path, table = tmp_path / "t.trace", tmp_path / "rates.json"
    path.write_text("LM (batch size 5)\tpython main.py\t--steps\t1\t1671228\t0.0\t1\n")
    table.write_text("""{"v100": {"('LM (batch size 5)', 1)": {"null": 9.0, "null": 1.0}}}""")
    assert "the key 'null' is there twice: keep one" in refusal(f"{path}?throughputs={table}")


def test_a_question_mark_in_a_file_name_is_part_of_it(tmp_path) -> None:
    path = tmp_path / "what?.csv"
    path.write_text(GOOD)
    assert len(load(str(path))) == 2


HELIOS = "job_id,user,vc,gpu_num,state,submit_time,start_time,end_time,duration\n"


@pytest.mark.parametrize(
    ("row", "words"),
    [
        ("1,u,v,1,COMPLETED,yesterday,2020-06-09 18:41:01,2020-06-09 18:41:05,4", "'yesterday' is not a time such as"),
        ("1,u,v,1,COMPLETED,1585702870,,,4", "column 'submit_time': '1585702870' is not a time such as"),
        ("1,u,v,1,COMPLETED,2020,,,4", "column 'submit_time': '2020' is not a time such as"),
        ("1,u,v,1,COMPLETED,2020-06-09 18:41:01 soon,,,4", "'2020-06-09 18:41:01 soon' is not a time such as"),
        ("1,u,v,one,COMPLETED,2020-06-09 18:41:01,,,4", "column 'gpu_num': 'one' is not a number"),
        ("1,u,v,-2,COMPLETED,2020-06-09 18:41:01,,,4", "column 'gpu_num': -2 is negative"),
    ],
)
def test_bad_rows_of_another_format(tmp_path, row: str, words: str) -> None:
    path = tmp_path / "cluster_log.csv"
    path.write_text(HELIOS + row + "\n")
    message = refusal(path)
    assert "line 2" in message
    assert words in message


JOB = {
    "status": "Pass",
    "vc": "v",
    "jobid": "app_1",
    "attempts": [],
    "submitted_time": "2017-10-07 01:11:39",
    "user": "u",
}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[{", "not a job log: not JSON (line 1, column 3"),
        ('[{"jobid": "a", "attempts": [{"x": 1, "x": 2}]}]', "not a job log: the key 'x' is there twice: keep one"),
        ("[]", "the trace is empty"),
        ("[1]", "is a list of jobs"),
        ('{"a": 1}', "is a list of jobs"),
        (json.dumps([{"jobid": "a"}]), "job 1 has no key 'status'; its keys are jobid"),
        (json.dumps([JOB, {"jobid": 7}], indent=1), "line 11: job 2 has no key 'status'"),
        (json.dumps([JOB, JOB], indent=1), "job 'app_1' is there twice: line 5 and line 13"),
        (
            json.dumps([JOB, JOB | {"jobid": 7, "submitted_time": "x"}], indent=1),
            "line 13, key 'submitted_time' of job 7",
        ),
        (json.dumps([JOB | {"submitted_time": ["x"]}]), "key 'submitted_time' of job app_1: ['x'] is not a time"),
        (json.dumps([JOB | {"attempts": [{"detail": [{"gpus": "gpu0"}]}]}]), "with their lists of gpus"),
        (json.dumps([JOB | {"attempts": None}]), "key 'attempts' of job app_1: None is not a list"),
        (json.dumps([JOB | {"submitted_time": "noon"}], indent=1), "line 5, key 'submitted_time' of job app_1: 'noon'"),
        (json.dumps([JOB | {"attempts": [{"detail": [{"ip": "m"}]}]}]), "key 'detail' of job app_1"),
    ],
)
def test_bad_philly_logs(tmp_path, text: str, words: str) -> None:
    path = tmp_path / "cluster_job_log"
    path.write_text(text)
    assert words in refusal(path)


@pytest.mark.parametrize(
    ("line", "words"),
    [
        (
            "1 0 0 60 8 -1 -1 8 100 -1 1 3 1 -1 2 -1 -1 -1\n2 x 0 60 8 -1 -1 8 100 -1 1 3 1 -1 2 -1 -1 -1",
            "line 4, column 'submit'",
        ),
        (
            "1 0 0 60 8 -1 -1 8 100 -1 1 3 1 -1 2 -1 -1 -1\n2 1 0 60 8",
            "line 4, column 'cpu': has no value: 5 values for 18 columns",
        ),
    ],
)
def test_bad_swf_lines(tmp_path, line: str, words: str) -> None:
    path = tmp_path / "t.swf"
    path.write_text("; a comment\n\n" + line + "\n")
    assert words in refusal(path)
