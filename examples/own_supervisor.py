"""The supervisor of one attempt of own_executor.py: starts the ranks, waits for them, and writes how they ended.

Run as `own_supervisor.py FOLDER LOCK`, in a session of its own; LOCK is the descriptor of the locked launch.json. Standard library only.
"""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

SIGNALS = ("SIGHUP", "SIGINT", "SIGQUIT", "SIGUSR1", "SIGUSR2", "SIGTERM")  # for the ranks, in the same process group


def supervise(folder: Path, lock: int) -> str:
    """Run all ranks, or none if one cannot start; return the first exit code that is not 0, and a message."""
    launch = json.loads((folder / "launch.json").read_text())
    ranks = []
    for number, environment in enumerate(launch["environments"]):
        with open(folder / f"rank-{number}.log", "ab") as log:
            place = {"cwd": launch["workdir"], "stdin": subprocess.DEVNULL, "stdout": log, "stderr": log}
            try:
                ranks.append(subprocess.Popen(launch["argv"], env=environment, pass_fds=[lock], **place))
            except OSError as error:
                return f"127 cannot start: {error.filename}: {error.strerror}"
    (folder / "up").touch()
    first_code = 0
    for _ in ranks:
        code = os.waitstatus_to_exitcode(os.wait()[1])
        first_code = first_code or (code if code >= 0 else 128 - code)
        if first_code and not (folder / "stop").exists():
            break  # the others cannot go on; after a stop they have the grace that the manager gave them
    return str(first_code)


if __name__ == "__main__":
    for name in SIGNALS:
        signal.signal(getattr(signal, name), lambda *_: None)  # ranks have the default action again
    attempt = Path(sys.argv[1])
    (attempt / "pid").write_text(str(os.getpid()))
    (attempt / "end").write_text(supervise(attempt, int(sys.argv[2])))
    os.killpg(0, signal.SIGKILL)  # also processes that ranks left behind
