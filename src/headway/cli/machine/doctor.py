"""`headway doctor`: what this machine can and cannot do for a manager, and the fix. It looks, and changes nothing."""

import os
import pwd
import shutil
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from headway.cli.machine.certificates import MOST_BYTES
from headway.cli.manager_options import DataOption, JsonOption, print_json, print_view
from headway.client.folder import URL_FILE, data_folder
from headway.findings import BAD, LIMITED, OK, Finding
from headway.io.files import read_file

if TYPE_CHECKING:
    from headway.live.executors import Executor

# A journal on these cannot be locked or flushed for sure (SQLite's WAL needs memory that all its users share).
NETWORK_DISKS = frozenset({"nfs", "nfs4", "cifs", "smb3", "9p", "ceph", "lustre", "gpfs", "beegfs", "fuse.sshfs"})
FEW_FILES = 4096
LITTLE_ROOM_BYTES = 2 << 30  # twice what logs leave free
SLOW_FLUSH_S = 0.02  # a submission waits for one


def register(app: typer.Typer) -> None:
    """Add the command to the command line."""
    app.command()(doctor)


def doctor(
    data: DataOption = None,
    tls_cert: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Also look at this certificate for `serve --tls-cert`.")
    ] = None,
    executor: Annotated[str, typer.Option(help="The executor that the manager will have, as for `serve`.")] = "process",
    as_json: JsonOption = False,
) -> None:
    """What this machine can and cannot do for a manager, and what to do about it. Exit code 1 if a manager would not work here.

    Example: headway doctor
    """
    folder = data_folder(data)
    findings = list(look(folder, tls_cert, executor))
    if as_json:
        print_json({"data": str(folder), "findings": findings})
    else:
        _print(findings)
    if any(each.state == BAD for each in findings):
        raise typer.Exit(1)


def look(data: Path, certificate: Path | None = None, executor: str = "process") -> Iterator[Finding]:
    """Everything, in the order of its weight."""
    from headway.live.executors.registry import find_executor

    chosen = find_executor(executor, data)
    yield _users(chosen)
    yield from chosen.checks()
    yield from _folder(data)
    yield _files()
    yield _service()
    yield _manager(data)
    if certificate is not None:
        yield _certificate(certificate)


def _users(executor: "Executor") -> Finding:
    """Return whose jobs the executor starts."""
    from headway.errors import BadInput
    from headway.io.accounts import own_account

    manager_user = own_account()[1]
    if os.geteuid() == 0:
        user_names = (account.pw_name for account in pwd.getpwall() if account.pw_uid != 0)
        try:
            executor.check_user(next(user_names, "nobody"))  # any user but root
        except BadInput as error:
            return Finding("users", LIMITED, f"run by {manager_user}: {error}", "other users may only read")
        return Finding("users", OK, "run by root: every job runs as the user who submitted it")
    fix = "to share it, run the manager as root: headway serve --systemd-unit"
    return Finding(
        "users", LIMITED, f"run by {manager_user}: all jobs run as {manager_user}, and other users may only read", fix
    )


def _folder(data: Path) -> Iterator[Finding]:
    """The data folder: whether it can be used, is private, is on a disk that keeps its word, and has room."""
    from headway.live.http.private import weaknesses

    there = next(path for path in (data, *data.absolute().parents) if path.is_dir())
    if not os.access(there, os.W_OK | os.X_OK):
        yield Finding("data folder", BAD, f"{there} cannot be written", "give another: --data DIR or $HEADWAY_DATA")
        return
    wrong = weaknesses(data)
    if wrong:
        yield Finding("data folder", BAD, wrong[0], "chown and chmod as said, or --data DIR")
    else:
        yield Finding("data folder", OK, f"{data}, which others cannot change")
    kind = _disk(there)
    if kind in NETWORK_DISKS:
        yield Finding("disk", BAD, f"{there} is on {kind}: a journal is not safe there", "--data DIR on a local disk")
        return
    flush_s, free = _flush_s(there), shutil.disk_usage(there).free
    summary = f"{kind}, {free / 1e9:.0f} GB free, a flush takes {flush_s * 1e3:.1f} ms"
    if free < LITTLE_ROOM_BYTES:
        yield Finding("disk", LIMITED, summary, "make room: logs are not written when less than 1 GiB is free")
    elif flush_s > SLOW_FLUSH_S:
        yield Finding("disk", LIMITED, summary, "submissions wait for it: --data DIR on a quicker disk")
    else:
        yield Finding("disk", OK, summary)


def _disk(folder: Path) -> str:
    """The type of the file system, by the longest mount point above the folder."""
    best, kind = "", "unknown"
    for line in Path("/proc/self/mounts").read_text(encoding="utf-8", errors="replace").splitlines():
        words = line.split()
        place = words[1].replace("\\040", " ")
        if len(place) >= len(best) and Path(place) in (folder.resolve(), *folder.resolve().parents):
            best, kind = place, words[2]
    return kind


def _flush_s(folder: Path) -> float:
    """How long a small write takes to be safe: the middle of five."""
    import tempfile

    took = []
    with tempfile.TemporaryFile(dir=folder) as file:
        for _ in range(5):
            file.write(b"x" * 4096)
            began = time.perf_counter()
            file.flush()
            os.fsync(file.fileno())
            took.append(time.perf_counter() - began)
    return sorted(took)[2]


def _files() -> Finding:
    import resource

    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard == resource.RLIM_INFINITY or hard >= FEW_FILES:
        return Finding("open files", OK, "enough for thousands of connections")
    return Finding("open files", LIMITED, f"at most {hard}: fewer connections and ranks", "raise it: ulimit -Hn 65536")


def _service() -> Finding:
    if Path("/run/systemd/system").is_dir():
        return Finding("service", OK, "systemd runs here: headway serve --systemd-unit prints a unit")
    return Finding(
        "service", LIMITED, "systemd does not run here", "start `headway serve` with what starts services here"
    )


def _manager(data: Path) -> Finding:
    from headway.client.folder import find_manager
    from headway.client.transport import ApiError, Transport, Unreachable
    from headway.errors import BadInput

    if not (data / URL_FILE).is_file():
        return Finding("manager", OK, "none has used this data folder yet")
    url = ""
    try:
        transport = Transport(replace(find_manager(data=data), token=""))  # none is needed
        url = transport.url
        transport.call("GET", "/healthz")
    except ApiError as error:
        return Finding("manager", BAD, f"the one at {url} is not well: {error}", "see its messages")
    except (Unreachable, BadInput) as error:
        return Finding("manager", LIMITED, str(error), "start it: headway serve")
    return Finding("manager", OK, f"answers at {url}, and its journal can be written")


def _certificate(path: Path) -> Finding:
    from cryptography import x509

    try:
        certificate = x509.load_pem_x509_certificate(read_file(path, MOST_BYTES))
    except (OSError, ValueError) as error:
        return Finding("certificate", BAD, f"{path} cannot be read as a certificate: {error}", "give one in PEM")
    until = certificate.not_valid_after_utc
    left_days = (until.timestamp() - time.time()) / 86_400
    words = f"{path} is good until {until:%Y-%m-%d}"
    if left_days < 0:
        return Finding("certificate", BAD, f"{path} expired on {until:%Y-%m-%d}", "renew it, then restart the manager")
    return Finding("certificate", OK if left_days > 14 else LIMITED, words, "" if left_days > 14 else "renew it soon")


def _print(findings: list[Finding]) -> None:
    from rich.table import Table
    from rich.text import Text

    from headway.cli.tables.terminal import plain

    table = Table(box=None, show_header=False, pad_edge=False)
    for settings in ({"no_wrap": True}, {"no_wrap": True, "style": "bold"}, {"overflow": "fold"}):
        table.add_column(**settings)
    styles = {OK: "green", LIMITED: "yellow", BAD: "red"}
    for each in findings:
        told = Text(plain(each.found))
        if each.fix:
            told.append(f"\n{plain(each.fix)}", style="dim")
        table.add_row(Text(each.state, style=styles[each.state]), each.name, told)
    print_view(table)
