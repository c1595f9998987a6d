"""Trace readers by name: the built-in ones, and one from a module outside Headway, also from the command line."""

import json
import sys

import pytest
from typer.testing import CliRunner

from headway.cli.main import app
from headway.errors import BadInput
from headway.workloads.load import load
from headway.workloads.registry import READERS, find_reader

MODULE = '''
"""Lines such as `10:2:60`: submission, GPUs, seconds."""

from headway.workloads.parsing.reader import Reader
from headway.workloads.workload import workload

NUMBER = 5


def read(source, options, *, strict):
    rows = [list(map(int, line.split(":"))) for line in source.text.splitlines()]
    queue = ["a" if row[1] == 1 else "b" for row in rows]
    scale = int(options.get("scale", "1"))
    columns = ([row[i] * (scale if i == 2 else 1) for row in rows] for i in range(3))
    return workload(source.name, *columns, queue=queue, caveats=("from outside",))


def wrong(source, options, *, strict):
    return [1, 2]


COLONS = Reader("colon file", read, options=("scale",))
'''


@pytest.fixture
def trace(tmp_path, monkeypatch) -> str:
    """A file that no built-in reader recognises, and a module that reads it."""
    (tmp_path / "colon_reader.py").write_text(MODULE)
    monkeypatch.syspath_prepend(tmp_path)
    path = tmp_path / "jobs.log"
    path.write_text("10:2:60\n0:1:30\n")
    return str(path)


def test_every_reader_has_a_name_and_is_found_by_it() -> None:
    assert len({find_reader(name).name for name in READERS}) == len(READERS)
    with pytest.raises(BadInput, match="unknown trace reader 'hellios': did you mean 'helios'"):
        find_reader("hellios")


def test_a_function_from_outside_reads_a_file(trace: str) -> None:
    with pytest.raises(BadInput, match="in no known format"):
        load(trace)
    jobs = load(f"{trace}?reader=colon_reader:read")
    assert (jobs.submit_s.tolist(), jobs.gpus.tolist(), jobs.duration_s.tolist()) == ([0, 10], [1, 2], [30, 60])
    assert jobs.caveats == ("from outside",)
    assert load(f"{trace}?reader=colon_reader:read&vc=b").gpus.tolist() == [2]


def test_a_reader_from_outside_has_options(trace: str) -> None:
    assert load(f"{trace}?reader=colon_reader:COLONS&scale=2").duration_s.tolist() == [60, 120]
    with pytest.raises(BadInput, match="unknown option of colon file 'scal': did you mean 'scale'"):
        load(f"{trace}?reader=colon_reader:COLONS&scal=2")


def test_the_command_line_takes_it_too(tmp_path, monkeypatch) -> None:
    (tmp_path / "local_reader.py").write_text(MODULE)
    (tmp_path / "jobs.log").write_text("10:2:60\n0:1:30\n")
    monkeypatch.setattr("sys.path", [folder for folder in sys.path if folder])
    monkeypatch.chdir(tmp_path)
    done = CliRunner().invoke(app, ["trace", "info", "jobs.log?reader=local_reader:read", "--json"])
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout)["jobs"] == 2


@pytest.mark.parametrize(
    ("reader", "said"),
    [
        ("colon_reader:", "write MODULE:NAME"),
        ("no_such_module:read", "cannot import 'no_such_module'.*is it in this folder or on PYTHONPATH"),
        ("colon_reader:raed", "colon_reader has no 'raed'"),
        ("colon_reader:NUMBER", r"is not a function read\(source, options, \*, strict\)"),
        ("colon_reader:wrong", "gave list, not a Workload"),
        ("colon_reader:COLONS&scale=x", r"failed: ValueError: invalid literal.*colon_reader.py, line 13\)"),
        ("broken_reader:read", r"importing broken_reader failed: SyntaxError: .*broken_reader.py, line 1\)"),
        ("failing_reader:read", r"importing failing_reader failed: RuntimeError: no .*failing_reader.py, line 2\)"),
        ("swf", "jobs.log is not in the format Standard Workload Format"),
    ],
)
def test_what_is_wrong_is_one_line(trace: str, tmp_path, reader: str, said: str) -> None:
    (tmp_path / "broken_reader.py").write_text("def read(:\n")
    (tmp_path / "failing_reader.py").write_text("\nraise RuntimeError('no')\n")
    with pytest.raises(BadInput, match=said) as caught:
        load(f"{trace}?reader={reader}")
    assert "\n" not in str(caught.value)


def test_a_built_in_reader_may_be_named(tmp_path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("submit_s,gpus,duration_s\n0,1,5\n")
    assert len(load(f"{path}?reader=headway_csv")) == 1
    with pytest.raises(
        BadInput, match=r"t\.csv is not in the format Helios cluster_log\.csv: it needs the columns job_id, user"
    ):
        load(f"{path}?reader=helios")


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("text", ["a\tb\n1\t2\n", "a,b\n1,2\n", "x"])
def test_a_file_in_another_format_is_one_line(tmp_path, reader: str, text: str) -> None:
    path = tmp_path / "t.csv"
    path.write_text(text)
    with pytest.raises(BadInput, match="is not in the format"):
        load(f"{path}?reader={reader}")
