"""The frr routes in FRRouting itself: zebra and pbrd in a network namespace for every switch."""

import contextlib
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
from pathlib import Path

import pytest
from tests.unit.test_network_routes_linux import LANES, follow, ip, lab, sliced
from tests.waiting import PATIENCE_S, wait_for

from headway.network.routes import frr
from headway.network.routes.render import render

DAEMONS = Path("/usr/lib/frr")


@contextlib.contextmanager
def daemons(built):
    """zebra and pbrd for every switch of a lab; yields what sends a file to those of one switch."""
    if not (DAEMONS / "pbrd").exists() or not shutil.which("vtysh"):
        pytest.skip("SKIPPED: FRRouting is not installed (package frr)")
    user = pwd.getpwnam("frr")
    with tempfile.TemporaryDirectory(prefix="frr-") as top:
        os.chown(top, user.pw_uid, user.pw_gid)
        started = []

        def send(name, text):
            file = Path(top, f"{name}.conf")
            file.write_text(text)
            inside(name, "vtysh", "--vty_socket", Path(top, name), "-f", file)

        def inside(name, *words):
            command = ["ip", "netns", "exec", built.name(name), *map(str, words)]
            done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=PATIENCE_S)
            assert done.returncode == 0, f"{words}: {done.stdout}{done.stderr}"

        try:
            for name in built.hall.devices:
                folder = Path(top, name)
                folder.mkdir()
                os.chown(folder, user.pw_uid, user.pw_gid)
                for daemon in ("zebra", "pbrd"):
                    own = (
                        "--vty_socket",
                        folder,
                        "-z",
                        folder / "zserv.api",
                        "-i",
                        folder / f"{daemon}.pid",
                        "-f",
                        "/dev/null",
                    )
                    started.append(folder / f"{daemon}.pid")
                    inside(name, DAEMONS / daemon, "-d", "-A", "127.0.0.1", *own)
                    wait_for(lambda folder=folder, daemon=daemon: (folder / f"{daemon}.vty").exists())
            yield send
        finally:
            for file in started:
                with contextlib.suppress(OSError, ValueError):
                    os.kill(int(file.read_text()), signal.SIGTERM)


def test_frr_sends_packets_as_the_certificate_says_and_takes_the_spare():
    certificate = sliced(LANES, 8)
    with lab(certificate) as built, daemons(built) as send:

        def rules(name):
            return ip("rule", "show", namespace=built.name(name))

        before = {name: rules(name) for name in built.hall.devices}
        for turn in range(2):
            for name, device in built.hall.devices.items():
                send(name, render(certificate, built.inventory, "frr", switch=name))
                every = frr.rules(device, spares=True)
                wait_for(lambda name=name, every=every: rules(name).count("proto zebra") == every)
            assert follow(built) == 32, f"applied {turn + 1} times"
        ip("link", "set", "up0", "down", namespace=built.name("leaf0"))
        first, there = built.inventory.nics[certificate.rank_order[0]], built.inventory.nics[certificate.rank_order[-1]]
        wait_for(lambda: built.lookup("leaf0", first.address, there.address, first.port) == "up1")
        ip("link", "set", "up0", "up", namespace=built.name("leaf0"))
        wait_for(lambda: built.lookup("leaf0", first.address, there.address, first.port) == "up0")
        for name in built.hall.devices:
            send(name, render(certificate, built.inventory, "frr", switch=name, undo=True))
            wait_for(lambda name=name: rules(name) == before[name])
