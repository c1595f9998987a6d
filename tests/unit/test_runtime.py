"""headway.runtime inside and outside a job, each in a process of its own."""

import json
import os
import subprocess
import sys
from pathlib import Path

from tests.waiting import PATIENCE_S


def run(script: str, **environment: str) -> str:
    """Run a script with only this environment, and give back what it said."""
    kept = {name: os.environ[name] for name in ("PATH", "PYTHONPATH") if name in os.environ}
    done = subprocess.run(
        [sys.executable, "-c", script], env={**kept, **environment}, capture_output=True, text=True, timeout=PATIENCE_S
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def inside(folder: Path, rank: int = 0, ranks: int = 1) -> dict[str, str]:
    (folder / "own").mkdir(exist_ok=True)
    return {
        "HEADWAY_JOB_ID": "4",
        "HEADWAY_ATTEMPT": "2",
        "RANK": str(rank),
        "WORLD_SIZE": str(ranks),
        "HEADWAY_RUN": str(folder),
    }


def test_outside_a_job_everything_is_harmless() -> None:
    script = """
import signal
from headway import runtime
print(runtime.should_stop(), runtime.report(1, total=2, loss=0.5), runtime.checkpointed(1))
print(signal.getsignal(signal.SIGTERM) == signal.SIG_DFL)
"""
    assert run(script).split() == ["False", "None", "None", "True"]


def test_importing_it_is_light() -> None:
    script = "import sys; from headway import runtime; print(sorted({'numpy', 'numba', 'pydantic', 'urllib.request'} & set(sys.modules)))"
    assert run(script).strip() == "[]"


def test_progress_reaches_the_jobs_own_folder(tmp_path: Path) -> None:
    script = """
from headway import runtime
for step in range(1, 4):
    runtime.report(step, total=3, loss=1 / step)
runtime.checkpointed(2)
"""
    run(script, **inside(tmp_path))
    told = json.loads((tmp_path / "own" / "report.json").read_text())
    assert told == {"step": 3, "total": 3, "loss": 1 / 3, "checkpointed": 2}


def test_the_last_word_is_written_at_exit(tmp_path: Path) -> None:
    run("from headway import runtime\nfor step in range(500): runtime.report(step)", **inside(tmp_path))
    assert json.loads((tmp_path / "own" / "report.json").read_text()) == {"step": 499}


def test_only_rank_0_speaks(tmp_path: Path) -> None:
    run("from headway import runtime; runtime.report(1); runtime.checkpointed(1)", **inside(tmp_path, rank=1, ranks=2))
    assert list((tmp_path / "own").iterdir()) == []


def test_one_rank_stops_at_once_by_word_or_signal(tmp_path: Path) -> None:
    script = """
import os, signal, sys
from headway import runtime
print(runtime.should_stop())
if sys.platform and os.environ.get("BY_SIGNAL"):
    os.kill(os.getpid(), signal.SIGTERM)
else:
    open(os.environ["HEADWAY_RUN"] + "/stop.json", "w").write("{}")
print(runtime.should_stop(), runtime.should_stop())
"""
    assert run(script, BY_SIGNAL="1", **inside(tmp_path)).split() == ["False", "True", "True"]
    assert run(script, **inside(tmp_path)).split() == ["False", "True", "True"]


def test_a_handler_of_the_jobs_own_stays(tmp_path: Path) -> None:
    script = """
import signal
signal.signal(signal.SIGTERM, lambda *given: print("mine"))
from headway import runtime
signal.raise_signal(signal.SIGTERM)
"""
    assert run(script, **inside(tmp_path)).strip() == "mine"


def test_all_ranks_stop_at_the_same_call(tmp_path: Path) -> None:
    """Three ranks that meet in a barrier every step, as in data-parallel training; the word comes while some are a call ahead."""
    script = """
import os, sys, time
from headway import runtime
rank, ranks, folder = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"]), os.environ["HEADWAY_RUN"]
def barrier(step):
    open(f"{folder}/at.{step}.{rank}", "w").close()
    while sum(os.path.exists(f"{folder}/at.{step}.{r}") for r in range(ranks)) < ranks:
        time.sleep(0.001)
for step in range(1, 400):
    if rank == 1 and step == 20:
        open(f"{folder}/stop.json", "w").write("{}")
    barrier(step)
    time.sleep(0.002 * ((step * (rank + 1)) % 3))
    if runtime.should_stop():
        print(step)
        break
"""
    kept = {name: os.environ[name] for name in ("PATH", "PYTHONPATH") if name in os.environ}
    ranks = [
        subprocess.Popen(
            [sys.executable, "-c", script], env={**kept, **inside(tmp_path, rank, 3)}, stdout=subprocess.PIPE, text=True
        )
        for rank in range(3)
    ]
    said = {process.communicate(timeout=PATIENCE_S)[0].strip() for process in ranks}
    assert len(said) == 1
    assert 20 <= int(said.pop()) <= 23


def test_notice_counts_down_and_is_none_without_one(tmp_path: Path) -> None:
    script = """
import os, pathlib, time
from headway import runtime
notice = pathlib.Path(os.environ["HEADWAY_RUN"]) / "notice.json"
told = [runtime.notice()]
for text in ('{"until": %r}' % (time.time() + 1000.0), '{"until": 5.0}', '{"until": nul', '[]', '{}'):
    notice.write_text(text)
    told.append(runtime.notice())
notice.unlink()
print(told[0], 0.0 < told[1] <= 1000.0, *told[2:], runtime.notice(), runtime.should_stop())
"""
    assert run(script, **inside(tmp_path)).split() == ["None", "True", "0.0", "None", "None", "None", "None", "False"]
    outside = "from headway import runtime; print(runtime.notice())"
    assert run(outside).strip() == "None"
