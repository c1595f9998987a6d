"""Every command that reads a file refuses what is not one, in one line: a pipe would wait for ever, a device would never end."""

import os
import resource
import socket
import subprocess
import sys

import pytest

from headway.errors import BadInput
from headway.live.options import ServeOptions

# Commands with FILE in the place of the file, and the suffix that makes them read it.
COMMANDS = {
    "trace": ("simulate FILE --cluster 1x4", ".csv"),
    "packed trace": ("trace info FILE", ".csv.gz"),
    "cluster": ("simulate synthetic:tiresias-480 --cluster FILE", ".yaml"),
    "queues": ("simulate synthetic:tiresias-480 --cluster 15x4 --queues FILE", ".yaml"),
    "fabric": ("fabric show FILE", ".yaml"),
    "hosts": ("fabric show FILE", ".csv"),
    "packed hosts": ("fabric show FILE", ".csv.gz"),
    "sweep": ("sweep FILE", ".yaml"),
    "distribution": ("simulate synthetic:tiresias-480 --cluster 15x4 --policy gittins?distribution=FILE", ".txt"),
    "topology": ("collective --topology FILE --size 1MB", ".yaml"),
    "links": ("collective links FILE --size 1MB", ".yaml"),
    "plan": ("collective --topology 2D-SW_SW --replay FILE", ".json"),
    "workload": ("collective iteration FILE", ".txt"),
    "certificate": ("fabric verify FILE", ".json"),
    "routes": ("fabric routes FILE", ".json"),
    "private key": ("fabric sign FILE --fabric vclos-512 --key FILE", ".pem"),
    "public key": ("fabric verify FILE --key FILE", ".pem"),
    "job file": ("submit FILE --dry-run", ".yaml"),
    "script": ("submit FILE --dry-run", ".sh"),
    "unknown script": ("submit FILE --dry-run", ""),
    "tls": ("serve --cluster 1x1 --data DATA --tls-cert FILE --tls-key FILE", ".pem"),
}


@pytest.mark.parametrize(("command", "suffix"), COMMANDS.values(), ids=COMMANDS)
def test_pipes_and_devices_are_refused_with_the_reason(run, tmp_path, command: str, suffix: str) -> None:
    pipe, device = tmp_path / f"pipe{suffix}", tmp_path / f"device{suffix}"
    os.mkfifo(pipe)
    device.symlink_to("/dev/zero")
    for path, kind in ((pipe, "pipe"), (device, "device")):
        words = command.replace("FILE", str(path)).replace("DATA", str(tmp_path / "data")).split()
        code, _, err = run(*words)
        told = [line for line in err.splitlines() if line.startswith("headway: ") and str(path) in line]
        assert code == 1, err
        assert f"a {kind}, not a file: save its content to a file" in told[-1], err


def test_a_socket_is_refused_with_the_reason(run, tmp_path) -> None:
    path = tmp_path / "jobs.csv"
    with socket.socket(socket.AF_UNIX) as ear:
        ear.bind(str(path))
        code, _, err = run("trace", "info", path)
    assert (code, "a socket, not a file" in err) == (1, True)


def test_the_secret_of_a_webhook_is_a_file(tmp_path) -> None:
    pipe = tmp_path / "secret"
    os.mkfifo(pipe)
    options = ServeOptions(webhook="http://127.0.0.1:1", webhook_secret=pipe)
    with pytest.raises(BadInput, match="a pipe, not a file"):
        options.start_webhook(None, print)  # type: ignore[arg-type]


def test_too_little_memory_is_one_line(tmp_path) -> None:
    path = tmp_path / "jobs.csv"
    path.write_text("job_id,submit_s,gpus,duration_s\n")
    os.truncate(path, 500 << 20)  # below the limit of a trace; what is read of it takes several times as much
    command = [sys.executable, "-c", "from headway.cli.main import main; main()", "trace", "info", path]
    most = 1500 << 20
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        timeout=600,
        env={**os.environ, "OPENBLAS_NUM_THREADS": "1"},  # each thread takes address space of its own
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (most, most)),
    )
    assert done.returncode == 1
    assert done.stderr == "headway: not enough memory: take a smaller input, or a machine with more\n"
