"""A part of an attempt as the batch script that Slurm gets: pure text, POSIX shell, nothing of Headway is needed on the nodes.

Files in the attempt's folder, which manager and nodes share, are how both agree:
    own/claim.P   the Slurm job that runs part P; whoever makes the file first has it, be it a job or (to forbid one) the manager
    own/ready.R   rank R could start; when all can, rank 0 makes own/go: all ranks run or none
    own/failed    why a rank could not start            own/bad      the exit code of the rank that failed first
    own/exit.R    the exit code of rank R               own/done.P   exit code, told to stop, ran: part P is over
    stop.json     the manager asks to stop              revoked      the attempt counts as lost: its ranks must not go on
"""

import shlex
from collections.abc import Mapping

from headway.live.executors import Launch
from headway.live.executors.slurm.layout import LayoutPart

FENCE_S = 5  # how often a rank looks whether its attempt was given up; shorter than the first back-off of a retry
SIGNALS = "HUP INT QUIT USR1 USR2 TERM CONT"

RANK = r"""
hw_run=$HEADWAY_RUN hw_own=$HEADWAY_RUN/own; set -f; IFS=';' hw_n=0
for hw_row in $HEADWAY_LAYOUT; do [ "$hw_n" -eq "$SLURM_PROCID" ] && break; hw_n=$((hw_n + 1)); done
IFS=: hw_n=r  # rank:local:locals:group:first:count, without a process of its own for each
for hw_word in $hw_row; do
  case $hw_n in
    r*) RANK=$hw_word hw_n=l;; l) LOCAL_RANK=$hw_word hw_n=s;; s) LOCAL_WORLD_SIZE=$hw_word hw_n=g;; g) GROUP_RANK=$hw_word hw_n=f;;
    f) hw_first=$hw_word hw_n=c;; c) hw_count=$hw_word;;
  esac
done
unset IFS HEADWAY_LAYOUT SLURM_HOSTFILE; set +f
[ -n "$HEADWAY_OUTPUTS" ] && hw_copy=$(echo "$HEADWAY_OUTPUTS" | sed -n "$((SLURM_PROCID + 1))p")
unset HEADWAY_OUTPUTS
if [ -n "$hw_copy" ] && mkfifo "$hw_own/pipe.$RANK"; then  # the log is copied as it is written
  (trap '' %(signals)s; exec tee "$hw_copy" <"$hw_own/pipe.$RANK" >>"$hw_run/rank-$RANK.log" 2>&1) &
  hw_tee=$!
  exec >"$hw_own/pipe.$RANK" 2>&1 </dev/null
else
  exec >>"$hw_run/rank-$RANK.log" 2>&1 </dev/null
fi
case $CUDA_VISIBLE_DEVICES in *,*)
  CUDA_VISIBLE_DEVICES=$(echo "$CUDA_VISIBLE_DEVICES" | cut -d, -f"$((hw_first + 1))-$((hw_first + hw_count))");;
esac
export RANK LOCAL_RANK LOCAL_WORLD_SIZE GROUP_RANK CUDA_VISIBLE_DEVICES
cannot() { echo "cannot $1 on $SLURMD_NODENAME" >"$hw_own/.failed.$RANK"; mv "$hw_own/.failed.$RANK" "$hw_own/failed"; exit 127; }
cd "$HEADWAY_WORKDIR" 2>/dev/null || cannot "enter the folder $HEADWAY_WORKDIR"
hw_path=$HEADWAY_PATH
(PATH=$hw_path; command -v -- "$1" >/dev/null) || cannot "run $1: there is no such command"
unset HEADWAY_WORKDIR HEADWAY_PATH
: >"$hw_own/ready.$RANK"
until [ -e "$hw_own/go" ]; do
  [ -e "$hw_own/failed" ] && exit 127
  { [ -e "$hw_run/stop.json" ] || [ -e "$hw_run/revoked" ]; } && exit 0
  if [ "$WORLD_SIZE" -eq 1 ]; then : >"$hw_own/go"; continue; fi
  if [ "$RANK" -eq 0 ] && [ "$(ls "$hw_own" | grep -c '^ready\.')" -eq "$WORLD_SIZE" ]; then : >"$hw_own/go"; else sleep 0.05; fi
done
trap : %(signals)s
(while sleep %(fence)d; do [ -e "$hw_run/revoked" ] && kill -KILL 0; done) >/dev/null 2>&1 &
hw_fence=$!
PATH=$hw_path "$@"
hw_code=$?
kill "$hw_fence" 2>/dev/null
exec >/dev/null 2>&1
for hw_n in 1 2 3 4 5 6 7 8 9 10; do  # something that the job left behind may hold the pipe: it is not waited for
  [ -n "$hw_tee" ] && kill -0 "$hw_tee" && sleep 0.1
done
[ -e "$hw_run/stop.json" ]; hw_told=$?
[ "$hw_code" -ne 0 ] && [ "$hw_told" -ne 0 ] && (set -C; echo "$hw_code" >"$hw_own/bad") 2>/dev/null
echo "$hw_code" >"$hw_own/exit.$RANK"
[ "$hw_told" -eq 0 ] && exit 0  # a rank that was asked to stop must not take along those that still save
exit "$hw_code"
"""

BATCH = r"""#!/bin/sh
# %(title)s
unset SLURM_JWT  # the manager's
hw_path=$PATH
%(exports)s
export HEADWAY_PATH="$PATH" PATH="$hw_path"  # the job may choose its own, this script needs srun and the like
hw_run=$HEADWAY_RUN hw_own=$HEADWAY_RUN/own
(set -C; echo "$SLURM_JOB_ID" >"$hw_own/claim.%(part)d") 2>/dev/null || exit 0
hw_code=0
if [ ! -e "$hw_run/stop.json" ] && [ ! -e "$hw_run/revoked" ]; then
  trap : %(signals)s
  printf '%%s\n' %(hosts)s >"$hw_own/hosts.%(part)d"
  export SLURM_HOSTFILE="$hw_own/hosts.%(part)d" HEADWAY_LAYOUT=%(layout)s
  unset SLURM_NTASKS_PER_NODE
  setsid srun --ntasks=%(ranks)d --distribution=arbitrary --overcommit --kill-on-bad-exit=1 --wait=0 --export=ALL --chdir=/ \
    --open-mode=append --output="$hw_run/slurm.%(part)d.log" /bin/sh -c %(rank)s headway %(argv)s &
  hw_srun=$!
  while :; do
    wait "$hw_srun"
    hw_code=$?
    kill -0 "$hw_srun" 2>/dev/null || break
  done
fi
set -- "$hw_own"/exit.*
if [ -e "$hw_own/failed" ]; then hw_code=127; elif [ -e "$hw_own/bad" ]; then read -r hw_code <"$hw_own/bad"
elif [ "$hw_code" -eq 0 ] && [ -e "$1" ]; then hw_code=$(cat "$@" | grep -v '^0$' | head -n 1); fi
if [ "${hw_code:-0}" -eq 0 ] && [ -e "$hw_own/go" ]; then  # srun also says 0 when Slurm ended its ranks: each must have left word
  for hw_rank in %(numbers)s; do [ -e "$hw_own/exit.$hw_rank" ] || hw_code=137; done
fi
[ -e "$hw_run/stop.json" ] && hw_told=1 || hw_told=0
[ -e "$hw_own/go" ] && hw_ran=1 || hw_ran=0
echo "${hw_code:-0} $hw_told $hw_ran" >"$hw_own/.done.%(part)d"
mv "$hw_own/.done.%(part)d" "$hw_own/done.%(part)d"
exit "${hw_code:-0}"
"""


def batch_script(launch: Launch, part: LayoutPart, number: int, environment: Mapping[str, str]) -> str:
    """The script of one part."""
    rows = (f"{p.rank}:{p.local}:{p.locals}:{p.group}:{p.first}:{p.gpus}" for p in part.ranks)
    exports = "\n".join(f"export {name}={shlex.quote(value)}" for name, value in environment.items())
    return BATCH % {
        "title": f"Headway job {launch.job}, attempt {launch.attempt}, part {number}",
        "exports": exports,
        "part": number,
        "hosts": " ".join(shlex.quote(place.node) for place in part.ranks),
        "layout": shlex.quote(";".join(rows)),
        "ranks": len(part.ranks),
        "numbers": " ".join(str(place.rank) for place in part.ranks),
        "rank": shlex.quote(RANK % {"signals": SIGNALS, "fence": FENCE_S}),
        "argv": shlex.join(launch.spec.argv),
        "signals": SIGNALS,
    }
