"""What a run tells and writes besides its figures: rows left out, targets that cannot be written, a full disk behind the output."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from headway import __version__

HEAD = "job_id,submit_s,gpus,duration_s,user,model\n"
GOOD = HEAD + "".join(f"j{i},{i * 60},{1 + i % 4},{100 + 40 * i},u{i % 3},VGG16\n" for i in range(30))


@pytest.fixture
def good(tmp_path):
    path = tmp_path / "in" / "good.csv"
    path.parent.mkdir()
    path.write_text(GOOD)
    return path


def test_rows_that_the_reader_left_out_are_told_everywhere_or_refused(run, tmp_path):
    path = tmp_path / "t.csv"
    path.write_text(GOOD + "x,1,0,10,u,m\ny,2,1,0,u,m\nz,3,1,,u,m\n")
    words = "3 rows left out: 1 no GPUs, 2 no duration"
    for command in (("simulate", path, "--policy", "fifo"), ("compare", path, "--policies", "fifo,srtf")):
        code, out, err = run(*command, "--cluster", "2x4")
        assert (code, words in err, words in out) == (0, True, False)
        code, out, err = run(*command, "--cluster", "2x4", "--json")
        found = json.loads(out) if command[0] == "simulate" else json.loads(out)[1]
        assert (found["skipped"], found["left_out"], err) == ({"no GPUs": 1, "no duration": 2}, 0, "")
        code, out, err = run(*command, "--cluster", "2x4", "--strict")
        assert (code, out) == (1, "")
        assert "t.csv, line 32, column 'gpus': job x has no GPUs" in err
    report = tmp_path / "report.html"
    assert run("compare", path, "--cluster", "2x4", "--policies", "fifo", "--report", report)[0] == 0
    assert words in report.read_text()


def test_a_folder_that_cannot_take_all_files_is_refused_before_the_run(run, good, tmp_path, monkeypatch):
    monkeypatch.setattr("headway.sim.api.simulate", None)  # a run would fail
    (tmp_path / "rd" / "report.html").mkdir(parents=True)
    code, out, err = run("simulate", good, "--cluster", "2x4", "--out", tmp_path / "rd")
    assert (code, out, err.count("\n")) == (1, "", 1)
    assert "report.html is a folder" in err
    assert [path.name for path in (tmp_path / "rd").iterdir()] == ["report.html"]
    code, out, err = run("simulate", good, "--cluster", "2x4", "--out", good / "below")
    assert (code, out) == (1, "")
    assert "good.csv is not a folder" in err


FULL = Path("/dev/full")


@pytest.mark.skipif(not FULL.is_char_device(), reason="SKIPPED: there is no device that is always full")
@pytest.mark.parametrize(
    "words",
    [("trace", "info", "GOOD"), ("policies", "--json"), ("simulate", "GOOD", "--cluster", "2x4", "--json")],
    ids=lambda words: words[0],
)
def test_a_full_disk_behind_standard_output_is_one_line(tmp_path, words):
    good = tmp_path / "good.csv"
    good.write_text("job_id,submit_s,gpus,duration_s\na,0,1,10\nb,5,2,20\n")
    command = [sys.executable, "-c", "from headway.cli.main import main; main()"]
    with FULL.open("w") as full:
        arguments = [str(good) if word == "GOOD" else word for word in words]
        ended = subprocess.run([*command, *arguments], stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert ended.returncode == 1
    assert ended.stderr == "headway: cannot write the output: No space left on device\n"


def test_the_version_and_the_format_of_the_journal_are_told(run, good, tmp_path):
    code, out, _ = run("--version")
    assert (code, out.split()) == (0, ["headway", __version__])
    code, _, _ = run("simulate", good, "--policy", "fifo", "--cluster", "2x4", "--out", tmp_path / "out")
    summary = json.loads((tmp_path / "out" / "summary.json").read_text())
    assert (code, summary["version"], summary["journal_format"]) == (0, __version__, 2)
