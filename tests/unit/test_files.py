"""Writing aside and renaming: what is at the path stays what it is, whatever it is."""

import os
import stat

import pytest

from headway.errors import BadInput
from headway.io.files import writable, write_atomically, writing


def mode_of(path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_a_pipe_or_device_is_refused_and_stays(tmp_path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with pytest.raises(BadInput, match="not a file"):
        write_atomically(pipe, "x")
    assert stat.S_ISFIFO(pipe.lstat().st_mode)
    (tmp_path / "link").symlink_to(pipe)
    with pytest.raises(BadInput, match="not a file"):
        write_atomically(tmp_path / "link", "x")
    assert sorted(os.listdir(tmp_path)) == ["link", "pipe"]


def test_a_link_stays_and_its_target_is_written(tmp_path) -> None:
    (tmp_path / "there").mkdir()
    target, link = tmp_path / "there" / "real.txt", tmp_path / "link.txt"
    link.symlink_to(target)
    for content in ("first", "second"):  # the target is missing, then there
        write_atomically(link, content)
        assert link.is_symlink()
        assert target.read_text() == content
    assert os.listdir(tmp_path / "there") == ["real.txt"]


def test_the_old_permissions_stay_and_new_files_follow_the_umask(tmp_path) -> None:
    old = tmp_path / "old"
    old.write_text("x")
    old.chmod(0o600)
    write_atomically(old, "y")
    assert (old.read_text(), mode_of(old)) == ("y", 0o600)
    before = os.umask(0o027)
    try:
        write_atomically(tmp_path / "new", "z")
    finally:
        os.umask(before)
    assert mode_of(tmp_path / "new") == 0o640


def test_a_failed_write_leaves_the_old_file_and_nothing_beside_it(tmp_path) -> None:
    path = tmp_path / "t"
    path.write_text("old")

    def fail() -> None:
        with writing(path) as file:
            file.write("half")
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail()
    assert (path.read_text(), os.listdir(tmp_path)) == ("old", ["t"])


def test_asking_creates_nothing(tmp_path) -> None:
    (tmp_path / "file").write_text("")
    assert writable(tmp_path / "a" / "b.html") == tmp_path / "a" / "b.html"
    for path, words in ((tmp_path, "is a folder"), (tmp_path / "file" / "x", "is not a folder")):
        with pytest.raises(BadInput, match=words):
            writable(path)
    assert os.listdir(tmp_path) == ["file"]


def test_a_long_name_is_written(tmp_path) -> None:
    write_atomically(tmp_path / ("n" * 250), "x")
    assert len(os.listdir(tmp_path)) == 1
