"""The systemd unit of a manager: `headway serve --systemd-unit` prints one for exactly the options that it was given."""

import os
import shutil
import sys
from pathlib import Path

from headway.io.command_option import flag_of, options_of
from headway.live.options import ServeOptions

UNIT = """\
# /etc/systemd/system/headway.service: written by headway serve --systemd-unit
[Unit]
Description=Headway, the manager of this cluster's training jobs
After=network-online.target remote-fs.target time-sync.target
Wants=network-online.target

[Service]
Type=exec
ExecStart={command}
Restart=on-failure
RestartSec=2

# Jobs outlive the manager: only the manager itself is stopped, and the next one adopts its jobs.
KillMode=process
TimeoutStopSec=30

# Limits per job: the manager makes a control group for each. systemd 254 and later put the manager beside them, not above.
Delegate=yes
DelegateSubgroup=manager
TasksMax=infinity
LimitNOFILE=65536

# Jobs inherit what follows, so it takes from them only what no job has a use for. Left out on purpose: PrivateTmp and ProtectHome (jobs
# use both), PrivateDevices and ProtectClock (they hide the GPUs), ProtectControlGroups (limits need them), MemoryDenyWriteExecute
# (compilers at run time), RestrictNamespaces (containers in jobs), NoNewPrivileges (programs that become another user).
UMask=0022
ProtectSystem=full
ProtectKernelTunables=yes
ProtectKernelModules=yes
ProtectKernelLogs=yes
ProtectHostname=yes
LockPersonality=yes
RestrictRealtime=yes
RestrictSUIDSGID=yes
SystemCallArchitectures=native
{root}
[Install]
WantedBy={target}
"""
ROOT = """
# What root needs to run jobs as their users, to find and to end them.
CapabilityBoundingSet=CAP_CHOWN CAP_DAC_OVERRIDE CAP_DAC_READ_SEARCH CAP_FOWNER CAP_KILL
CapabilityBoundingSet=CAP_SETGID CAP_SETUID CAP_SYS_PTRACE CAP_SYS_RESOURCE
# What hides the GPUs of others on cgroups v2, and listening on a port below 1024.
CapabilityBoundingSet=CAP_BPF CAP_NET_ADMIN CAP_NET_BIND_SERVICE
StateDirectory=headway
StateDirectoryMode=0711
"""
STATE = "/var/lib/headway"
FLAG = "--systemd-unit"
# Options whose values are paths, and those whose values may be: systemd starts the manager in another folder than this one.
PATHS = frozenset(flag_of(option) for option in options_of(ServeOptions).values() if option.kind is Path)
PERHAPS_PATHS = frozenset({"--cluster", "--fabric"})


def systemd_unit(words: list[str], data: Path | None) -> str:
    """The unit for `headway serve` with these words. Without --data, root's manager keeps its state in /var/lib/headway."""
    root = os.geteuid() == 0
    arguments = _with_whole_paths([word for word in words if word != FLAG])
    if data is None and root:
        arguments += ["--data", STATE]
    program = shutil.which(sys.argv[0]) or str(Path(sys.prefix) / "bin" / "headway")
    command = " ".join(_quoted(word) for word in [str(Path(program).absolute()), "serve", *arguments])
    return UNIT.format(
        command=command, root=ROOT if root else "", target="multi-user.target" if root else "default.target"
    )


def _with_whole_paths(words: list[str]) -> list[str]:
    """The same words with paths from the root on, be they written `--data DIR` or `--data=DIR`."""
    arguments: list[str] = []
    for before, word in zip(["", *words], words, strict=False):
        option, equals, value = word.partition("=") if word.startswith("--") else (before, "", word)
        is_path = (equals or not word.startswith("--")) and (
            option in PATHS or (option in PERHAPS_PATHS and Path(value).exists())
        )
        whole = str(Path(value).absolute()) if is_path else value
        arguments.append(f"{option}={whole}" if equals else whole if not word.startswith("--") else word)
    return arguments


def _quoted(word: str) -> str:
    """A word as systemd reads it: quotes around blanks, and its own signs doubled (systemd.service, Command lines)."""
    word = word.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%").replace("$", "$$").replace("\n", "\\n")
    return f'"{word}"' if not word or any(c.isspace() or c in "\"';\\" for c in word) else word
