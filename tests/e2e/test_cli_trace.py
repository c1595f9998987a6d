"""`headway trace` as a person types it: tables, JSON, files, and every mistake in one line with nothing left behind."""

import gzip
import json
import os
import subprocess
import sys

import pytest
from tests.waiting import PATIENCE_S

from headway.workloads.load import load

GOOD = "job_id,submit_s,gpus,duration_s\n" + "".join(f"j{i},{i * 60},{1 + i % 4},{100 + i}\n" for i in range(50))


@pytest.fixture
def good(tmp_path):
    path = tmp_path / "in" / "good.csv"
    path.parent.mkdir()
    path.write_text(GOOD)
    return path


def test_info_prints_tables_and_warnings(run, good) -> None:
    code, out, err = run("trace", "info", good, "--cluster", "4x4")
    assert code == 0
    for words in ("jobs", "50", "GPUs of a job", "duration", "submissions", "load", "4x4", "█"):
        assert words in out
    assert err == ""


def test_info_json_is_only_json(run, good) -> None:
    code, out, _ = run("trace", "info", good, "--cluster", "4x4", "--json")
    content = json.loads(out)
    assert code == 0
    assert content["jobs"] == 50
    assert content["cluster"] == {"name": "4x4", "nodes": 4, "gpus": 16}
    assert content["load"] == pytest.approx(sum((1 + i % 4) * (100 + i) for i in range(50)) / (16 * 49 * 60))
    assert sum(row["jobs"] for row in content["sizes"]) == 50
    assert isinstance(content["warnings"], list)


def test_info_plots_one_page_that_needs_no_network(run, good, tmp_path) -> None:
    page = tmp_path / "plots" / "page.html"
    code, _, _ = run("trace", "info", good, "--cluster", "4x4", "--plot", page)
    assert code == 0
    text = page.read_text()
    assert "good.csv" in text
    assert "GPUs of the cluster" in text
    assert 'src="http' not in text
    assert "prefers-color-scheme: dark" in text
    figures = json.loads(text.partition("id='figures'>")[2].partition("</script>")[0])
    assert [figure["layout"]["xaxis"]["title"]["text"] for figure in figures] == [
        "GPUs of a job", "duration (log axis)", "time (hours)", "time (hours)",
    ]  # fmt: skip


def test_generate_then_read_back(run, tmp_path) -> None:
    for name in ("a.csv", "b.csv.gz", "c.csv.zst"):
        code, out, _ = run("trace", "generate", "synthetic:tiresias-480?seed=1", "--out", tmp_path / name)
        assert (code, out) == (0, f"{tmp_path / name}: 480 jobs\n")
    assert gzip.decompress((tmp_path / "b.csv.gz").read_bytes()) == (tmp_path / "a.csv").read_bytes()
    jobs, direct = load(str(tmp_path / "c.csv.zst")), load("synthetic:tiresias-480?seed=1")
    assert (jobs.submit_s == direct.submit_s).all()
    assert (jobs.model == direct.model).all()


def test_convert_shapes_on_the_way(run, good, tmp_path) -> None:
    out = tmp_path / "out.csv"
    words = (
        "--from",
        "10m",
        "--to",
        "40m",
        "--sample",
        "50%",
        "--time-scale",
        "2",
        "--load",
        "0.5",
        "--cluster",
        "2x4",
    )
    code, text, _ = run("trace", "convert", good, "--out", out, *words, "--seed", "3", "--json")
    content = json.loads(text)
    assert code == 0
    assert content["jobs"] == 15
    assert len(content["caveats"]) == 4
    jobs = load(str(out))
    work = float((jobs.gpus * jobs.duration_s).sum())
    assert work / (8 * (jobs.submit_s[-1] - jobs.submit_s[0])) == pytest.approx(0.5, rel=1e-4)


def test_convert_counts_what_it_leaves_out(run, tmp_path) -> None:
    path = tmp_path / "t.csv"
    path.write_text(GOOD + "cpu,1,0,5\n")
    code, out, _ = run("trace", "convert", path, "--out", tmp_path / "o.csv")
    assert code == 0
    assert "50 jobs (left out: 1 with no GPUs)" in out
    code, _, err = run("trace", "convert", path, "--out", tmp_path / "p.csv", "--strict")
    assert code == 1
    assert "line 52, column 'gpus': job cpu has no GPUs" in err
    assert not (tmp_path / "p.csv").exists()


BAD = {
    "missing file": ("info", "nowhere.csv"),
    "unknown synthetic": ("info", "synthetic:tiresas-480"),
    "unknown option": ("info", "synthetic:philly?sead=1"),
    "zero nodes": ("info", "GOOD", "--cluster", "0x4"),
    "unknown cluster": ("info", "GOOD", "--cluster", "phily"),
    "missing column": ("info", "NOCOL"),
    "not a number": ("info", "TEXT"),
    "negative": ("info", "NEGATIVE"),
    "duplicates": ("info", "TWICE"),
    "empty": ("info", "EMPTY"),
    "truncated": ("info", "CUT"),
    "encoding": ("info", "LATIN"),
    "plot is a folder": ("info", "GOOD", "--plot", "FOLDER"),
    "out is a folder": ("convert", "GOOD", "--out", "FOLDER.csv"),
    "out has no known suffix": ("convert", "GOOD", "--out", "OUT.parquet"),
    "load without cluster": ("convert", "GOOD", "--out", "OUT.csv", "--load", "0.5"),
    "bad load": ("convert", "GOOD", "--out", "OUT.csv", "--load", "-1", "--cluster", "4x4"),
    "bad time scale": ("convert", "GOOD", "--out", "OUT.csv", "--time-scale", "0"),
    "bad sample": ("convert", "GOOD", "--out", "OUT.csv", "--sample", "some"),
    "sample too large": ("convert", "GOOD", "--out", "OUT.csv", "--sample", "51"),
    "bad window": ("convert", "GOOD", "--out", "OUT.csv", "--from", "2h", "--to", "1h"),
    "empty window": ("convert", "GOOD", "--out", "OUT.csv", "--from", "9d"),
    "bad time": ("convert", "GOOD", "--out", "OUT.csv", "--from", "noon"),
    "bad trace to convert": ("convert", "NEGATIVE", "--out", "OUT.csv"),
    "generate a file": ("generate", "GOOD", "--out", "OUT.csv"),
}
FILES = {
    "NOCOL": b"job_id,submit_s,gpus\n1,2,3\n",
    "TEXT": b"job_id,submit_s,gpus,duration_s\n1,2,3,long\n",
    "NEGATIVE": b"job_id,submit_s,gpus,duration_s\n1,2,3,-4\n",
    "TWICE": b"job_id,submit_s,gpus,duration_s\n1,2,3,4\n1,2,3,4\n",
    "EMPTY": b"",
    "CUT": gzip.compress(GOOD.encode())[:-20],
    "LATIN": b"job_id,submit_s,gpus,duration_s\n\xe9,2,3,4\n",
}


@pytest.mark.parametrize("case", list(BAD))
def test_bad_input_is_one_line_and_leaves_nothing_behind(run, good, tmp_path, monkeypatch, case: str) -> None:
    for name, content in FILES.items():
        (good.parent / name).write_bytes(content)
    (tmp_path / "FOLDER").mkdir()
    (tmp_path / "FOLDER.csv").mkdir()
    monkeypatch.chdir(tmp_path)
    before = sorted(tmp_path.rglob("*"))
    names = {"GOOD": str(good), **{name: str(good.parent / name) for name in FILES}}
    code, out, err = run("trace", *(names.get(word, word) for word in BAD[case]))
    assert code == 1
    assert out == ""
    assert err.startswith("headway: ")
    assert err.count("\n") == 1
    assert "Traceback" not in err
    assert sorted(tmp_path.rglob("*")) == before


def test_an_old_file_stays_whole_when_the_new_one_fails(run, good, tmp_path) -> None:
    out = tmp_path / "o.csv"
    out.write_text("precious")
    assert run("trace", "convert", good, "--out", out, "--sample", "51")[0] == 1
    assert out.read_text() == "precious"


COMMAND = [sys.executable, "-c", "from headway.cli.main import main; main()", "trace", "info"]


def test_in_a_process_of_its_own(good) -> None:
    done = subprocess.run(
        [*COMMAND, str(good), "--json"], capture_output=True, text=True, timeout=PATIENCE_S, check=False
    )
    assert done.returncode == 0
    assert json.loads(done.stdout)["jobs"] == 50


def test_a_terminal_without_unicode(good) -> None:
    path = good.rename(good.with_name("grün.csv"))
    plain = {**os.environ, "PYTHONIOENCODING": "ascii"}
    done = subprocess.run([*COMMAND, str(path)], capture_output=True, env=plain, timeout=PATIENCE_S, check=False)
    assert (done.returncode, done.stderr) == (0, b"")
    assert b"####" in done.stdout
