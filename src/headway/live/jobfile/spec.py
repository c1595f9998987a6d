"""The job specification (YAML or the API) and its validation."""

import re
import signal
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from headway.cluster.demands import Demand, demand_of
from headway.errors import BadInput
from headway.io.numbers import Range, plain_whole
from headway.io.units import seconds, size_bytes
from headway.io.yaml_file import check_content
from headway.live.jobfile.after import SINGLETON, Need, as_need, read_need
from headway.live.jobfile.options import GPUS, JOB_OPTIONS

MOST_RANKS = 4096  # processes that one job may start on one machine
RANKS = Range(1, MOST_RANKS, whole=True)
MOST_TASKS = 100_000  # tasks of one array
DEFAULT_COLLECTIVE_BYTES = 1e9  # what a plan is made for; its chunks scale with the size
DEFAULT_GRACE_S = 30.0  # Kubernetes' terminationGracePeriodSeconds, Slurm's KillWait
_RANGE = r"\d{1,9}(?:-\d{1,9}(?::[1-9]\d{0,8})?)?"
_ARRAY = re.compile(rf"{_RANGE}(?:,{_RANGE})*(?:%[1-9]\d{{0,8}})?", re.ASCII)
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)


def _time(value: Any) -> Any:
    """Return the seconds of `15m` or of a number."""
    if isinstance(value, bool):
        raise ValueError("a time is a number and a unit, such as 15m")
    try:
        return seconds(str(value)) if isinstance(value, str | int | float) else value
    except BadInput as error:
        raise ValueError(str(error)) from None


def _gigabytes(value: Any) -> Any:
    """Return a number of GB; refuse a unit."""
    if isinstance(value, str) and not re.fullmatch(r"[0-9.]+", value):
        raise ValueError("is a number of GB, such as 64 or 0.5: leave the unit out")
    return value


def _bytes(value: Any) -> Any:
    """Return the bytes of `250MB` or of a number."""
    try:
        return size_bytes(value) if isinstance(value, str) else value
    except BadInput as error:
        raise ValueError(str(error)) from None


def _min_runtime(value: Any) -> Any:
    """Return `auto`, or the seconds of a time."""
    if value is None or value == "auto":
        return value
    if not isinstance(value, str | int | float):
        raise ValueError("write a time such as 15m, or auto")
    return _time(value)


def _tasks_per_node(value: Any) -> Any:
    """Return `gpu`, or a number of ranks."""
    number = plain_whole(value) if isinstance(value, str) else value
    if isinstance(number, float) and number.is_integer():
        number = int(number)
    if value == "gpu" or number in RANKS:
        return value
    raise ValueError(f"{value!r} is not {RANKS}: write such a number, or gpu for one rank per GPU")


def _words(value: Any) -> Any:
    """Return the words of a command; refuse a line of text."""
    if isinstance(value, str):
        raise ValueError("write a list of words, such as [python, train.py], or use run for a shell line")
    return value


def _list_of_needs(value: Any) -> Any:
    """Return a list of dependencies; refuse a single dependency."""
    if isinstance(value, str | int):
        raise ValueError("write a list, such as [12, any:13]")
    return value


def _features(value: tuple[str, ...]) -> tuple[str, ...]:
    """Return the features that nodes must have; refuse a constraint without a name."""
    if not all(constraint.strip(" |") for constraint in value):
        raise ValueError("a feature has no name: write one such as ib, or ib|roce for one of them")
    return value


def _array(value: str) -> str:
    """Return the indices of an array as they are written."""
    array_tasks(value)
    return value


def _variables(value: dict[str, str]) -> dict[str, str]:
    """Return environment variables by name."""
    for name in value:
        if not _NAME.fullmatch(name):
            raise ValueError(f"{name!r} is not the name of an environment variable: use letters, digits and _")
    return value


def _signal(value: Any) -> Any:
    name = str(value).upper()
    name = name if name.startswith("SIG") else f"SIG{name}"
    if name not in signal.Signals.__members__ or name in ("SIGKILL", "SIGSTOP"):
        raise ValueError(f"{value!r} is not a signal that a job can catch, such as SIGTERM or SIGUSR1")
    return name


def _plain(value: Any) -> Any:
    """Return text that can be an argument or an environment variable; refuse other text."""
    if isinstance(value, str) and "\0" in value:
        raise ValueError("text must not hold a zero byte")
    if isinstance(value, str) and any("\ud800" <= c <= "\udfff" for c in value):
        raise ValueError("text must be Unicode: half a surrogate pair is none")
    return value


def _option(path: str) -> Any:
    """Return the description and the range of the field that an option sets."""
    option = JOB_OPTIONS[path]
    bounds: dict[str, Any] = {} if option.allowed is None else {"ge": option.allowed.least, "le": option.allowed.most}
    return Field(description=option.help, **bounds)


Time = Annotated[float, BeforeValidator(_time), Field(gt=0, allow_inf_nan=False)]
Text = Annotated[str, BeforeValidator(_plain), Field(max_length=1_000_000)]
Short = Annotated[str, BeforeValidator(_plain), Field(max_length=256)]


After = Annotated[Annotated[int, Field(ge=1)] | Annotated[str, Field(max_length=40)], BeforeValidator(read_need)]


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Resources(_Part):
    """Needs of the job on each node, or in all if it gives no `num_nodes`."""

    accelerators: Annotated[int, Field(ge=GPUS.least, le=GPUS.most, description="GPUs.")] = 1
    cpus: Annotated[
        Annotated[float, Field(ge=0, allow_inf_nan=False)] | None, Field(description="CPUs, as a limit.")
    ] = None
    memory: Annotated[
        Annotated[float, BeforeValidator(_gigabytes), Field(ge=0, allow_inf_nan=False)] | None,
        Field(description="GB of memory, as a limit."),
    ] = None
    type: Annotated[Short, _option("resources.type")] = ""


class Network(_Part):
    """Links that are reserved for the job."""

    isolation: Literal["none", "vclos", "ocs-vclos"] = "none"


class Collective(_Part):
    """How the job's collectives are scheduled."""

    schedule: Literal["none", "themis", "best"] = "none"
    size: Annotated[float, BeforeValidator(_bytes), Field(ge=1, le=2**40, allow_inf_nan=False)] = (
        DEFAULT_COLLECTIVE_BYTES
    )


class Preemption(_Part):
    """Signal, grace and minimum run time of the job. The minimum run time defaults to its queue's, then to the manager's."""

    signal: Annotated[str, BeforeValidator(_signal)] = "SIGTERM"
    grace: Annotated[
        float, BeforeValidator(_time), Field(ge=0, le=86_400, allow_inf_nan=False), _option("preemption.grace")
    ] = DEFAULT_GRACE_S
    min_runtime: Annotated[
        Annotated[float, Field(ge=0, allow_inf_nan=False)] | Literal["auto"] | None,
        BeforeValidator(_min_runtime),
        _option("preemption.min_runtime"),
    ] = None


class Checkpoint(_Part):
    """The folder of the job's checkpoints, and their interval."""

    dir: Annotated[Short, _option("checkpoint.dir")]
    interval: Time | None = None


class Retry(_Part):
    """When a job is run again. The default follows Slurm: after a failure of its node, not after a failure of its own."""

    on: tuple[Literal["failure", "node_failure"], ...] = ("node_failure",)
    max: Annotated[int, Field(ge=0, le=1000)] = 3


class JobSpec(_Part):
    """One job, or an array of them. Field names are those of the job file."""

    name: Annotated[Short, _option("name")] = ""
    command: Annotated[tuple[Text, ...], BeforeValidator(_words), Field(max_length=10_000)] = ()
    run: Annotated[Text, Field(examples=["python train.py"])] = ""
    num_nodes: Annotated[int | None, _option("num_nodes")] = None
    resources: Resources = Resources()
    tasks_per_node: Annotated[
        Annotated[int, Field(ge=1, le=MOST_RANKS)] | Literal["gpu"],
        BeforeValidator(_tasks_per_node),
        _option("tasks_per_node"),
    ] = 1
    envs: Annotated[dict[Short, Text], Field(max_length=1000), AfterValidator(_variables), _option("envs")] = {}
    queue: Annotated[Short, _option("queue")] = ""
    array: Annotated[Annotated[str, Field(max_length=10_000), AfterValidator(_array)] | None, _option("array")] = None
    time_limit: Annotated[Time | None, _option("time_limit")] = None
    network: Network = Network()
    collective: Collective = Collective()
    preemptible: Annotated[bool | None, _option("preemptible")] = None
    preemption: Preemption = Preemption()
    checkpoint: Checkpoint | None = None
    retry: Retry = Retry()
    after: Annotated[
        tuple[After, ...], BeforeValidator(_list_of_needs), Field(max_length=10_000), _option("after")
    ] = ()
    workdir: Annotated[Short | None, _option("workdir")] = None
    constraints: Annotated[
        tuple[Short, ...], Field(max_length=100), AfterValidator(_features), _option("constraints")
    ] = ()
    output: Annotated[Short | None, _option("output")] = None  # %j, %A, %a, %b, %x, %u, %t, %n, %N as in Slurm
    hold: Annotated[bool, _option("hold")] = False

    @model_validator(mode="after")
    def _whole(self) -> "JobSpec":
        if bool(self.command) == bool(self.run):
            raise ValueError("a job has either a command (a list) or run (a shell line)")
        if self.command and not self.command[0]:
            raise ValueError("the command is empty")
        if self.ranks > MOST_RANKS:
            most = f"a job may start at most {MOST_RANKS:,} processes on one machine"
            raise ValueError(f"tasks_per_node: {self.ranks:,} ranks in all, and {most}: ask for fewer")
        return self

    @property
    def demand(self) -> Demand:
        """Return the constraint of the job: its GPU type, features, and GPUs per node."""
        return demand_of(self.resources.type, self.constraints, self.gpus, self.num_nodes or 0)

    @property
    def gpus(self) -> int:
        """Return the GPUs of all nodes together."""
        return self.groups * self.resources.accelerators

    @property
    def groups(self) -> int:
        """Return the number of groups of ranks: one per node, or one if the placement chooses the nodes."""
        return self.num_nodes or 1

    @property
    def needs(self) -> tuple[Need, ...]:
        """Return the dependencies on jobs by number, and how each must end."""
        return tuple(as_need(need) for need in self.after if need != SINGLETON)

    @property
    def singleton(self) -> bool:
        """Return whether the job waits for all earlier jobs of its user and name."""
        return SINGLETON in self.after

    @property
    def tasks(self) -> int:
        """Return the ranks on each node."""
        return self.resources.accelerators if self.tasks_per_node == "gpu" else self.tasks_per_node

    @property
    def ranks(self) -> int:
        """Return the ranks of all nodes together."""
        return self.groups * self.tasks

    @property
    def argv(self) -> tuple[str, ...]:
        """Return the command that each rank executes."""
        return self.command or ("/bin/sh", "-c", self.run)

    @property
    def may_preempt(self) -> bool:
        """Return whether the job may be preempted; by default only if it saves checkpoints, else it would start from zero."""
        return self.checkpoint is not None if self.preemptible is None else self.preemptible


def array_tasks(text: str) -> tuple[list[int], int | None]:
    """Return the indices of `0-9,20-40:5%4` in order, and how many may be active at once (None: all)."""
    if not _ARRAY.fullmatch(text):
        such = "0-99, 1,3,5-7, 0-99:5 for every fifth, or 0-99%8 for 8 at once"
        raise ValueError(f"{text!r} is not an array: write indices such as {such}")
    indices_text, _, limit = text.partition("%")
    ranges = []
    for part in indices_text.split(","):
        bounds, _, step = part.partition(":")
        low, _, high = bounds.partition("-")
        first, last = int(low), int(high or low)
        if last < first:
            raise ValueError(f"{part!r} runs backwards: write {last}-{first}")
        ranges.append(range(first, last + 1, int(step or 1)))
    if sum(map(len, ranges)) > MOST_TASKS:
        raise ValueError(f"the array {text!r} has more than {MOST_TASKS} tasks")
    tasks = sorted({index for indices in ranges for index in indices})
    return tasks, int(limit) if limit else None


def job_spec(content: Any, where: str = "job") -> JobSpec:
    """Return the job of a mapping; BadInput names the first wrong field in one line."""
    return check_content(content, JobSpec, where, "job")
