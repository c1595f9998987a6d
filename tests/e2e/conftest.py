"""What the tests of commands share."""

import sys

import pytest

from headway.cli.main import main


@pytest.fixture
def run(monkeypatch, capsys):
    """Run one command; its exit code, standard output and standard error. A traceback fails the test by itself."""

    def _run(*words: object) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["headway", *map(str, words)])
        with pytest.raises(SystemExit) as ended:
            main()
        shown = capsys.readouterr()
        return ended.value.code or 0, shown.out, shown.err

    return _run
