"""A real Slurm on this machine, for tests and measurements: munged, slurmctld and one slurmd per node, with fake GPUs, all in one folder.

The daemons run in the foreground as our children and end with `stop`; nothing is left behind. To have one to play with:

    .venv/bin/python -m tests.slurm_cluster [--nodes 4] [--gpus 4] [--accounts]
"""

import argparse
import contextlib
import os
import secrets
import shutil
import signal
import socket
import subprocess
import tempfile
from pathlib import Path
from typing import Any

from tests import slurm_accounts
from tests.ports import reserve_ports
from tests.processes import descendants
from tests.waiting import PATIENCE_S, wait_for

NEEDED = ("munged", "slurmctld", "slurmd", "sbatch", "srun", "squeue", "scancel", "sinfo", "scontrol")
CONF = """
ClusterName=headway-test
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={port}
SlurmUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket,cred_expire=5
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool-%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd-%n.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd-%n.log
{accounts}
JobAcctGatherType=jobacct_gather/none
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SwitchType=switch/none
MpiDefault=none
SlurmdParameters=config_overrides
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
ReturnToService=2
KillWait=1
MessageTimeout=10
{more}
{gres}
NodeName=n[0-{top}] NodeHostname={host} NodeAddr=127.0.0.1 Port=[{first}-{last}] CPUs={cpus} {node_gres} State=UNKNOWN
PartitionName=main Nodes=ALL Default=YES MaxTime=INFINITE State=UP
"""


def missing() -> str:
    """What a Slurm of our own needs and this machine does not have; empty when it can be started."""
    absent = [name for name in NEEDED if shutil.which(name) is None]
    rights = [] if os.geteuid() == 0 else ["root"]
    return ", ".join(rights + absent)


class SlurmCluster:
    """Daemons, and the environment that reaches them."""

    def __init__(
        self,
        nodes: int,
        gpus: int = 0,
        cpus: int = 8,
        more: str = "",
        topology: str = "",
        accounts: str = "",
        users: tuple[str, ...] = (),
    ) -> None:
        """`accounts`: what they count, such as gres/gpu; none are kept without it. `users`: who has an account there, without rights."""
        # A short path: the name of a socket holds about a hundred characters. Other users pass through it.
        self.folder, self.nodes = Path(tempfile.mkdtemp(prefix="headway-slurm-", dir="/tmp")), nodes
        self.folder.chmod(0o755)
        for name in ("state", "dev", *(f"spool-{node}" for node in self.names)):
            (self.folder / name).mkdir()
        for gpu in range(gpus):  # slurmd wants a device file per GPU: each is a /dev/null of our own
            os.mknod(self.folder / "dev" / f"nvidia{gpu}", 0o20666, os.makedev(1, 3))
        (self.folder / "munge.key").write_bytes(secrets.token_bytes(128))
        (self.folder / "munge.key").chmod(0o600)
        port, self._ports = reserve_ports(nodes + 2)
        given = {"host": socket.gethostname().partition(".")[0], "folder": self.folder, "top": nodes - 1, "cpus": cpus}
        gres = (
            {"gres": "GresTypes=gpu", "node_gres": f"Gres=gpu:v100:{gpus}"} if gpus else {"gres": "", "node_gres": ""}
        )
        if gpus:
            devices = f"{self.folder}/dev/nvidia[0-{gpus - 1}]" if gpus > 1 else f"{self.folder}/dev/nvidia0"
            (self.folder / "gres.conf").write_text(f"Name=gpu Type=v100 File={devices}\n")
        if topology:
            (self.folder / "topology.conf").write_text(topology)
            more += "\nTopologyPlugin=topology/tree"
        ports = {"port": port, "first": port + 1, "last": port + nodes}
        kept = (
            slurm_accounts.CLIENT.format(folder=self.folder, port=port + nodes + 1, tres=accounts)
            if accounts
            else slurm_accounts.NONE
        )
        if accounts:
            slurm_accounts.write(self.folder, port + nodes + 1)
        self.conf = self.folder / "slurm.conf"
        self.conf.write_text(CONF.format(more=more, accounts=kept, **given, **gres, **ports))
        self.accounts, self.users = bool(accounts), users
        self.environment = {**os.environ, "SLURM_CONF": str(self.conf)}
        self.daemons: dict[str, subprocess.Popen[bytes]] = {}

    @property
    def names(self) -> list[str]:
        """The nodes."""
        return [f"n{number}" for number in range(self.nodes)]

    def start(self) -> "SlurmCluster":
        """Start everything, and wait until all nodes are idle."""
        try:
            files = {
                name: f"--{name}={self.folder}/munge.{name.partition('-')[0]}"
                for name in ("socket", "pid-file", "log-file")
            }
            key = [f"--key-file={self.folder}/munge.key", f"--seed-file={self.folder}/munge.seed"]
            self.run("munged", "munged", "-F", "--force", *key, *files.values())
            wait_for(lambda: (self.folder / "munge.socket").exists(), "munged does not start")
            if self.accounts:
                self.start_accounts()
            self.start_controller()
            for name in self.names:
                self.start_node(name)
            self.wait_idle()
        except BaseException:
            self.stop()
            raise
        return self

    def run(self, name: str, *command: str) -> None:
        """Start a daemon as our child; one that crashes leaves no core file where the tests run."""
        without_core = ("prlimit", "--core=0:", *command)
        with (self.folder / f"{name}.out").open("ab") as log:
            self.daemons[name] = subprocess.Popen(without_core, env=self.environment, stdout=log, stderr=log)

    def start_accounts(self) -> None:
        """Start the database and slurmdbd, which then knows of this cluster."""
        self.environment["MYSQL_UNIX_PORT"] = str(slurm_accounts.socket(self.folder))
        self.run("mariadbd", *slurm_accounts.database(self.folder))
        wait_for(lambda: slurm_accounts.socket(self.folder).exists(), "the database does not start")
        self.run("slurmdbd", "slurmdbd", "-D")

        def knows_us() -> bool:
            self.ask("sacctmgr", "--immediate", "add", "cluster", "headway-test")
            return self.ask("sacctmgr", "--noheader", "list", "cluster", "format=Cluster%20") == "headway-test"

        wait_for(knows_us, "slurmdbd does not start")
        # Before slurmctld starts: one of 22.05 may crash when a user without a default QOS is added under it (docs/slurm.md).
        if self.users:
            self.ask("sacctmgr", "--immediate", "add", "account", "all")
            self.ask("sacctmgr", "--immediate", "add", "user", ",".join(self.users), "account=all")

    def start_controller(self) -> None:
        """Start slurmctld."""
        self.run("slurmctld", "slurmctld", "-D")

    def crashed(self) -> bool:
        """Whether slurmctld has died of itself; it is started again then, so that the next test has one."""
        if self.daemons["slurmctld"].poll() is None:
            return False
        self.start_controller()
        return True

    def last_words(self) -> str:
        """The end of what slurmctld wrote."""
        texts = [path.read_text(errors="replace") for path in sorted(self.folder.glob("slurmctld*")) if path.is_file()]
        return "\n".join(text[-4000:] for text in texts)

    def start_node(self, name: str) -> None:
        """Start one slurmd."""
        self.run(name, "slurmd", "-D", "-N", name)

    def kill(self, name: str) -> None:
        """Kill a daemon as a crash would."""
        daemon = self.daemons.pop(name)
        daemon.kill()
        daemon.wait()

    def kill_node(self, name: str) -> None:
        """Kill a slurmd and everything that runs under it, as the loss of a machine would."""
        self.kill(name)
        for pid in self._steps(name):
            for victim in [pid, *descendants(pid)]:
                try:
                    os.kill(victim, signal.SIGKILL)
                except ProcessLookupError:
                    continue

    def _steps(self, name: str) -> list[int]:
        """The processes (slurmstepd) that hold the steps of a node, which have its log or its spool folder open; "": of all nodes."""
        found = []
        for process in Path("/proc").glob("[0-9]*"):
            try:
                if "slurmstepd" in (process / "comm").read_text() and self.folder.name in _environment(process):
                    if not name:
                        found.append(int(process.name))
                        continue
                    held = {os.readlink(handle) for handle in (process / "fd").iterdir()}
                    if any(name + ".log" in path or f"spool-{name}" in path for path in held):
                        found.append(int(process.name))
            except OSError:
                continue
        return found

    def wait_idle(self) -> None:
        """Until every node takes jobs and has none."""
        idle = {f"{name} idle" for name in self.names}
        wait_for(
            lambda: set(self.ask("sinfo", "-N", "-h", "-o", "%N %t").splitlines()) == idle, "the nodes do not come up"
        )

    def ask(self, *command: str) -> str:
        """What a command of Slurm answers."""
        silent = {**self.environment, "SBATCH_OUTPUT": "/dev/null"}  # else jobs leave their output where the tests run
        done = subprocess.run(command, env=silent, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
        return done.stdout.strip()

    def stop(self) -> None:
        """End the jobs, then the daemons, and remove the folder."""
        if "slurmctld" in self.daemons:
            self.ask("scancel", "--state=PENDING", "--user=root")
            self.ask("scancel", "--signal=KILL", "--full", "--user=root")
        for daemon in reversed(self.daemons.values()):
            daemon.terminate()
        for daemon in self.daemons.values():
            try:
                daemon.wait(3)  # slurmctld may wait much longer for a node that was killed
            except subprocess.TimeoutExpired:
                daemon.kill()
                daemon.wait()
        for pid in self._steps(""):  # steps outlive their slurmd
            for victim in [*descendants(pid), pid]:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(victim, signal.SIGKILL)
        ours = {os.getpid(), *descendants(os.getpid())}  # such as the servers of multiprocessing
        for process in Path("/proc").glob("[0-9]*"):  # ranks outlive their steps
            with contextlib.suppress(OSError):
                if int(process.name) not in ours and f"SLURM_CONF={self.folder}/" in _environment(process):
                    os.kill(int(process.name), signal.SIGKILL)
        self._ports.close()
        shutil.rmtree(self.folder, ignore_errors=True)


def _environment(process: Path) -> str:
    return (process / "environ").read_bytes().decode(errors="replace")


def started(nodes: int, gpus: int = 0, **given: Any) -> SlurmCluster:
    """A running Slurm, or a loud skip where it cannot be had."""
    import pytest

    if lacks := missing():
        pytest.skip(f"SKIPPED: a Slurm of our own needs {lacks}; `make system` as root installs it")
    if given.get("accounts") and (lacks := slurm_accounts.missing()):
        pytest.skip(f"SKIPPED: the accounts of Slurm need {lacks}; `make system` as root installs it")
    return SlurmCluster(nodes, gpus, **given).start()


def main() -> None:
    """Run a Slurm until interrupted, and say how to reach it."""
    parser = argparse.ArgumentParser(description="A whole Slurm on this machine, until Ctrl-C. As root.")
    parser.add_argument("--nodes", type=int, default=4)
    parser.add_argument("--gpus", type=int, default=4, help="per node; device files that do nothing")
    parser.add_argument("--accounts", action="store_true", help="with slurmdbd, so that sacct has a history")
    given = parser.parse_args()
    if lacks := ", ".join(filter(None, [missing(), slurm_accounts.missing() if given.accounts else ""])):
        raise SystemExit(f"a Slurm of our own needs {lacks}; `make system` as root installs it")
    cluster = SlurmCluster(given.nodes, given.gpus, accounts="gres/gpu" if given.accounts else "")
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        cluster.start()
        print(f"in another terminal: export SLURM_CONF={cluster.conf}\nhere: Ctrl-C ends it", flush=True)
        signal.pause()
    except KeyboardInterrupt:
        print("ending the jobs and the daemons", flush=True)
    finally:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        cluster.stop()


if __name__ == "__main__":
    main()
