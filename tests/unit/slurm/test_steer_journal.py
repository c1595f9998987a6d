"""What steering writes down: whole after a crash in the middle of a line, never long, and never without a job that could come back."""

import json
import resource
from dataclasses import replace
from pathlib import Path

import pytest

from headway.errors import BadInput
from headway.slurm.snapshot import SlurmJob
from headway.slurm.steering import journal
from headway.slurm.steering.journal import JOURNAL, SCALE, Changed, SteeringFolder
from headway.slurm.steering.service import KEPT_S


@pytest.fixture
def written(tmp_path: Path) -> SteeringFolder:
    """Three jobs were changed, the last twice."""
    folder = SteeringFolder(tmp_path)
    for job, value in ((1, 10), (2, 20), (3, 30), (3, 31)):
        folder.write(job, Changed(5.0, 0, (value,)))
    return folder


@pytest.mark.parametrize("cut", [1, 9, 30])
def test_after_a_line_was_cut_off_what_comes_next_is_kept(written: SteeringFolder, tmp_path: Path, cut: int) -> None:
    """It was glued to the rest of the line, and both were taken for one that nobody had finished."""
    path = tmp_path / JOURNAL
    path.write_bytes(path.read_bytes()[:-cut])
    SteeringFolder(tmp_path).write(4, Changed(6.0, 7, (40,)))
    found = {job: change.set_to for job, change in SteeringFolder(tmp_path).changed.items()}
    assert found == {1: (10,), 2: (20,), 3: (31,) if cut == 1 else (30,), 4: (40,)}


def test_a_full_disk_in_the_middle_of_a_line_is_named_and_what_comes_next_is_kept(
    written: SteeringFolder, tmp_path: Path
) -> None:
    path, before = tmp_path / JOURNAL, resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (path.stat().st_size + 10, before[1]))
    try:
        with pytest.raises(BadInput, match=f"cannot write {path}: .*; run it again when it can be"):
            written.write(4, Changed(6.0, 7, (40,)))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert not path.read_text().endswith("\n")
    written.write(5, Changed(6.0, 7, (50,)))
    assert SteeringFolder(tmp_path).changed == written.changed
    assert sorted(written.changed) == [1, 2, 3, 5]


@pytest.mark.parametrize("line", ["5", "[1, 2]", "null", "[1, 2, 3, null, false]", "\u00e9", "[[], 0.0, 0, [], false]"])
def test_a_damaged_line_is_named(written: SteeringFolder, tmp_path: Path, line: str) -> None:
    path = tmp_path / JOURNAL
    path.write_text(f"{line}\n{path.read_text()}", encoding="utf-8")
    with pytest.raises(BadInput, match=rf"{JOURNAL}:1 is damaged"):
        SteeringFolder(tmp_path)


@pytest.mark.parametrize("text", ["", "[]", '{"step": 1}', "\u00e9"])
def test_a_damaged_scale_is_named(tmp_path: Path, text: str) -> None:
    (tmp_path / SCALE).write_text(text, encoding="utf-8")
    with pytest.raises(BadInput, match=rf"{SCALE} is damaged: remove it"):
        SteeringFolder(tmp_path).scale()


def test_lines_of_no_use_are_dropped_when_they_are_many(
    written: SteeringFolder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of every job the last is kept, and of jobs that Slurm has forgotten those of the last month."""
    path = tmp_path / JOURNAL
    before = path.read_text()
    written.tidy([])
    assert path.read_text() == before, "a short file is left as it is"
    monkeypatch.setattr(journal, "SPARE_LINES", 0)
    for gone in (1, 2):
        written.changed[gone] = replace(written.changed[gone], at=written.changed[gone].at - KEPT_S)
    task = SlurmJob(9, "PENDING", array=2)  # job 2 itself is gone, but what it was given its tasks have too
    written.tidy([task])
    assert [json.loads(line)[0] for line in path.read_text().splitlines()] == [2, 3]
    again = SteeringFolder(tmp_path)
    assert again.changed == written.changed
    assert again.changed[3].set_to == (31,)
    again.write(3, Changed(5.0, 0, (32,)))
    assert SteeringFolder(tmp_path).changed[3].set_to == (32,)


def test_a_file_of_before_is_read(tmp_path: Path) -> None:
    (tmp_path / JOURNAL).write_text("[1, 5.0, 3, 10, false]\n[2, 5.0, 3, [10, 11], true]\n")
    assert SteeringFolder(tmp_path).changed == {
        1: Changed(5.0, 3, (10,), False, 5.0),
        2: Changed(5.0, 3, (10, 11), True, 5.0),
    }
