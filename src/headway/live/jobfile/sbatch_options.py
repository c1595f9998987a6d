"""Every option that a `#SBATCH` line may have: what becomes of those that are no field of a job here.

An option that only informs, or that changes neither what runs nor on what, is named in a note. One whose absence would change what runs
is refused. The lists follow the manual of sbatch (Slurm 24.05).
"""

from typing import Final

SHORT: Final = {
    "-A": "account", "-a": "array", "-B": "extra-node-info", "-b": "begin", "-C": "constraint", "-c": "cpus-per-task",
    "-D": "chdir", "-d": "dependency", "-e": "error", "-F": "nodefile", "-G": "gpus", "-H": "hold", "-i": "input",
    "-J": "job-name", "-k": "no-kill", "-L": "licenses", "-M": "clusters", "-m": "distribution", "-N": "nodes",
    "-n": "ntasks", "-O": "overcommit", "-o": "output", "-p": "partition", "-Q": "quiet", "-q": "qos", "-S": "core-spec",
    "-s": "oversubscribe", "-t": "time", "-v": "verbose", "-W": "wait", "-w": "nodelist", "-x": "exclude",
}  # fmt: skip
# Why an option has no effect here; what is noted is `--name has no effect here` with these words.
_LABEL, _ORDER = "it only informs", "the policy orders jobs here"
_LAYOUT, _ELSEWHERE = "cores, sockets and binding are left to the system", "it has no meaning on these nodes"
WITHOUT_EFFECT: Final = {
    "account": _LABEL, "comment": _LABEL, "wckey": _LABEL, "mcs-label": _LABEL, "extra": _LABEL, "acctg-freq": _LABEL,
    "profile": _LABEL, "parsable": _LABEL, "quiet": _LABEL, "verbose": _LABEL, "ignore-pbs": _LABEL,
    "mail-type": "no mail is sent (an operator can have a webhook)", "mail-user": "no mail is sent",
    "nice": _ORDER, "priority": _ORDER, "qos": _ORDER, "time-min": _ORDER, "prefer": "only what nodes must have counts (--constraint)",
    "hint": _LAYOUT, "threads-per-core": _LAYOUT, "cores-per-socket": _LAYOUT, "sockets-per-node": _LAYOUT,
    "extra-node-info": _LAYOUT, "ntasks-per-socket": _LAYOUT, "ntasks-per-core": _LAYOUT, "mem-bind": _LAYOUT,
    "gpu-bind": _LAYOUT, "gres-flags": _LAYOUT, "tres-bind": _LAYOUT, "distribution": _LAYOUT, "cpu-freq": _LAYOUT,
    "gpu-freq": _LAYOUT, "core-spec": _LAYOUT, "thread-spec": _LAYOUT, "overcommit": _LAYOUT,
    "contiguous": "the placement chooses nodes", "spread-job": "the placement chooses nodes",
    "use-min-nodes": "the placement chooses nodes", "switches": "the placement chooses nodes",
    "segment": "the placement chooses nodes", "oversubscribe": "GPUs are never shared",
    "no-kill": "a job ends with any of its nodes", "requeue": "a job whose node failed is run again in any case",
    "kill-on-invalid-dep": "a job that can never start is cancelled in any case",
    "error": "errors go where the output goes",
    "open-mode": "the first attempt empties the output file, later ones append",
    "network": _ELSEWHERE, "delay-boot": _ELSEWHERE, "stepmgr": _ELSEWHERE,
    "wait-all-nodes": _ELSEWHERE, "propagate": "limits are those of the manager",
    "get-user-env": "jobs get PATH, a few others and envs", "wait": "write headway submit --wait",
}  # fmt: skip
REFUSED: Final = {
    "exclusive": "jobs share nodes here: ask for all GPUs of a node instead",
    "exclude": "nodes cannot be chosen here: leave it out",
    "nodelist": "nodes cannot be chosen here: leave it out",
    "nodefile": "nodes cannot be chosen here: leave it out",
    "batch": "nodes cannot be chosen here: leave it out",
    "cluster-constraint": "there is one cluster here: leave it out",
    "clusters": "there is one cluster here: leave it out",
    "begin": "jobs start as soon as they can: use --hold, and headway release later",
    "deadline": "there are no deadlines here: use --time",
    "licenses": "there are no licences here: leave it out",
    "reservation": "there are no reservations by people here: leave it out",
    "bb": "there is no burst buffer here: leave it out",
    "bbf": "there is no burst buffer here: leave it out",
    "container": "there are no containers here: start one in the script",
    "container-id": "there are no containers here: start one in the script",
    "export-file": "write the variables: --export=NAME=value",
    "input": "standard input is empty here: redirect it in the script",
    "uid": "a job runs as the user of its token: leave it out",
    "gid": "a job runs as the user of its token: leave it out",
    "tmp": "disks are not counted here: leave it out",
    "mincpus": "CPUs are asked for, not looked for: use --cpus-per-task",
    "gpus-per-socket": "sockets are not known here: use --gpus-per-node",
    "tres-per-task": "use --gpus-per-task and --cpus-per-task",
    "resv-ports": "each job has one port of its own (MASTER_PORT): leave it out",
    "reboot": "nodes are not rebooted for a job: leave it out",
    "test-only": "write headway submit --dry-run",
    "wrap": "write headway submit -- COMMAND",
}
# Options that are complete without a value; one that may have a value has it after an equals sign, so the next word is another option.
FLAGS: Final = frozenset({
    "exclusive", "no-requeue", "requeue", "verbose", "quiet", "parsable", "hold", "contiguous", "ignore-pbs", "no-kill",
    "overcommit", "oversubscribe", "reboot", "spread-job", "stepmgr", "test-only", "use-min-nodes", "wait", "get-user-env",
    "nice", "propagate",
})  # fmt: skip
# Variables that jobs find under Slurm, and what says the same here.
VARIABLES: Final = {
    "SLURM_JOB_ID": "$HEADWAY_JOB_ID", "SLURM_JOBID": "$HEADWAY_JOB_ID", "SLURM_ARRAY_JOB_ID": "$HEADWAY_ARRAY_ID",
    "SLURM_ARRAY_TASK_ID": "$HEADWAY_ARRAY_INDEX", "SLURM_JOB_NODELIST": "$HEADWAY_NODES", "SLURM_NODELIST": "$HEADWAY_NODES",
    "SLURM_NTASKS": "$WORLD_SIZE", "SLURM_NPROCS": "$WORLD_SIZE", "SLURM_PROCID": "$RANK", "SLURM_LOCALID": "$LOCAL_RANK",
    "SLURM_NODEID": "$GROUP_RANK",
}  # fmt: skip
