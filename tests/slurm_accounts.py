"""The accounts of a Slurm of our own: a database (MariaDB, on a socket in the cluster's folder) and slurmdbd (on loopback)."""

import shutil
from pathlib import Path

NEEDED = ("slurmdbd", "mariadbd", "sacct", "sacctmgr")
CONF = """
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
DbdHost=localhost
DbdPort={port}
SlurmUser=root
StorageType=accounting_storage/mysql
StorageHost=localhost
StorageUser=root
StorageLoc=accounts
LogFile={folder}/slurmdbd.log
PidFile={folder}/slurmdbd.pid
CommunicationParameters=NoInAddrAnyDBD
"""
# For slurm.conf. GPUs are counted only where they are named.
CLIENT = """
AccountingStorageType=accounting_storage/slurmdbd
AccountingStorageHost=localhost
AccountingStoragePort={port}
AccountingStoragePass={folder}/munge.socket
AccountingStorageTRES={tres}
"""
NONE = "AccountingStorageType=accounting_storage/none"


def missing() -> str:
    """What accounts need beside a Slurm, and this machine does not have."""
    return ", ".join(name for name in NEEDED if shutil.which(name) is None)


def write(folder: Path, port: int) -> None:
    """The configuration of slurmdbd, which it wants for itself."""
    (folder / "database").mkdir(mode=0o700)  # whoever reaches the socket may do anything
    path = folder / "slurmdbd.conf"
    path.write_text(CONF.format(folder=folder, port=port))
    path.chmod(0o600)


def database(folder: Path) -> list[str]:
    """The command of a small database without users or a network."""
    own = [f"--datadir={folder}/database", f"--socket={socket(folder)}", f"--pid-file={folder}/database/pid"]
    small = ["--innodb-buffer-pool-size=16M", "--innodb-log-file-size=8M"]
    return ["mariadbd", "--no-defaults", "--user=root", "--skip-networking", "--skip-grant-tables", *own, *small]


def socket(folder: Path) -> Path:
    """Where the database answers; slurmdbd finds it as MYSQL_UNIX_PORT."""
    return folder / "database" / "socket"
