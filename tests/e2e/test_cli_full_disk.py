"""Standard output on a disk that is full: one line on standard error and exit 1, whatever the command."""

import subprocess
import sys
from pathlib import Path

import pytest

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
