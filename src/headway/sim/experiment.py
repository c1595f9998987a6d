"""An experiment as one value: a trace and its shaping, a cluster, a policy, and the options of the simulated world.

The command line, the Python functions, sweep files, summaries, result tables and the footers of reports are all derived from the fields
of `Experiment`. A new option is one field here, and the code that obeys it. This module loads neither NumPy nor the engine.
"""

import os
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from numbers import Real
from typing import TYPE_CHECKING, Annotated, Any

from headway.errors import BadInput, unknown
from headway.io import units
from headway.io.command_option import Check, CommandOption, check_fields, flag_of, options_of
from headway.io.numbers import MOST_WHOLE, Range
from headway.network.sharing.rules import NETWORKS, parse_network

if TYPE_CHECKING:  # these load NumPy; they do not import this module
    from headway.cluster.nodes import Cluster
    from headway.cluster.queues import Queues
    from headway.network.fabric.model import Fabric
    from headway.workloads.workload import Workload

SEED = Range(0, MOST_WHOLE, whole=True)
SEEDS = Range(1, 10_000, whole=True)  # how many of them a comparison or a sweep runs
# 31 years: the longest preemption cost and minimum run time; times stay exact to the microsecond.
LONGEST_S = 1e9
Named = str | os.PathLike[str]
PLAIN = (str, int, float, type(None))  # values that can be written down


@dataclass(frozen=True, slots=True)
class ExperimentOption(CommandOption):
    """How one field is written by people: on the command line, in Python and in sweep files."""

    key: str = ""  # in a sweep file, where it is not the flag's name
    beside: str = ""  # the field whose entry in a sweep file may set this one too, such as a network for one placement


def _one_of(*choices: str) -> Check:
    def check(option: CommandOption, value: Any) -> Any:
        if value not in choices:
            raise unknown(option.words, value if isinstance(value, str) else repr(value), choices)
        return value

    return check


def _network(option: CommandOption, value: Any) -> Any:
    if not isinstance(value, str):
        raise unknown(option.words, repr(value), NETWORKS)
    parse_network(value)
    return value


def _text(option: CommandOption, value: Any) -> str:
    """Numbers may be given where text is meant, such as a sample of 100."""
    if not isinstance(value, str | Real) or isinstance(value, bool):
        raise BadInput(f"{option.words} {value!r} is neither text nor a number")
    return str(value)


def check_time(option: CommandOption, value: Any) -> str:
    """Return a time as written."""
    units.seconds(str(value), flag_of(option))
    return str(value)


def check_turns(option: CommandOption, value: Any) -> str:
    """Return a minimum run time as written."""
    turns(str(value), flag_of(option))
    return str(value)


def turns(text: str, option: str = "") -> dict[str, float | None]:
    """A minimum run time as written, such as ``auto`` or ``5m,batch=1h``: by queue, "" for all others; None is auto."""
    min_runtimes: dict[str, float | None] = {"": None}
    named: set[str] = set()
    for part in text.split(","):
        queue, equals, time = part.strip().rpartition("=")
        if equals and not queue:
            raise BadInput(f"{option}: {part!r} names no queue: write a time or auto, and QUEUE=TIME after a comma")
        if queue.strip() in named:
            raise BadInput(
                f"{option}: {text!r} gives {f'queue {queue.strip()!r}' if queue else 'a time for all'} twice"
            )
        named.add(queue.strip())
        min_runtimes[queue.strip()] = None if time.strip() == "auto" else units.seconds(time, option, LONGEST_S)
    return min_runtimes


def _cost(option: CommandOption, value: Any) -> str:
    if value not in ("none", "model"):
        try:
            units.seconds(str(value), most=LONGEST_S)
        except BadInput:
            right = f"none, model or a time from 0 to {LONGEST_S:g} seconds, such as 30s"
            raise BadInput(f"{option.words} {value!r} is not {right}") from None
    return str(value)


def _yes_or_no(option: CommandOption, value: Any) -> bool:
    """A truth value; in YAML 1.2, yes and no are text."""
    answer = {"yes": True, "no": False}.get(value) if isinstance(value, str) else value
    if not isinstance(answer, bool):
        raise BadInput(f"{option.words} {value!r} is neither yes nor no")
    return answer


@dataclass(frozen=True, slots=True)
class Experiment:
    """One simulation to run, in the words of the command line. In Python, names may be objects instead."""

    trace: Annotated[
        "Named | Workload",
        ExperimentOption(
            "A trace file, or synthetic:NAME?jobs=480&seed=1.", key="traces", metavar="TRACE", argument=True
        ),
    ]
    cluster: Annotated[
        "Named | Cluster",
        ExperimentOption("Nodes x GPUs such as 15x4, a preset such as philly, or a YAML file.", key="clusters"),
    ]
    policy: Annotated[Any, ExperimentOption("When jobs run; see `headway policies`.", key="policies")] = "headway"
    placement: Annotated[Any, ExperimentOption("Where jobs run; see `headway policies`.", key="placements")] = (
        "consolidated"
    )
    network: Annotated[
        str,
        ExperimentOption(
            f"{', '.join(NETWORKS[:-1])}, or isolated (with a vclos placement); ecmp?qps=4, ecmp?exact=10, ...?failed=spine3.",
            _network,
            beside="placement",
        ),
    ] = "ideal"
    fabric: Annotated[
        "Named | Fabric | None",
        ExperimentOption(
            "The cluster's network: a preset such as vclos-512 or YAML; default: by the cluster's name.",
            beside="placement",
        ),
    ] = None
    collective: Annotated[
        str,
        ExperimentOption(
            "How jobs reduce gradients: baseline, themis or best; none leaves communication out of their speed.",
            _one_of("none", "baseline", "themis", "best"),
        ),
    ] = "none"
    preemption_cost: Annotated[
        str | float, ExperimentOption("model (as published for each model), a time such as 30s, or none.", _cost)
    ] = "model"
    slowdown: Annotated[
        str, ExperimentOption("none or model: spreading skewed models slows them.", _one_of("none", "model"))
    ] = "none"
    min_runtime: Annotated[
        str | float,
        ExperimentOption(
            "Time a job runs before it may be preempted: auto (by what a preemption costs it), or 5m,batch=1h.",
            check_turns,
        ),
    ] = "auto"
    queues: Annotated[
        "Named | Queues | None",
        ExperimentOption(
            "A YAML file of queues: weights, guaranteed GPUs, priorities, limits. The trace's queues are looked up in it."
        ),
    ] = None
    progress_reports: Annotated[
        float,
        ExperimentOption(
            "Share of jobs, 0 to 1, that report how much work is left to policies that ask.", allowed=Range(0, 1)
        ),
    ] = 0.0
    progress_error: Annotated[
        float, ExperimentOption("Reports are wrong by up to this factor, either way.", allowed=Range(1, 1e6))
    ] = 1.0
    seed: Annotated[
        int,
        ExperimentOption(
            "Seed of samples, placements, networks and loss curves; a synthetic trace has its own, ?seed=.",
            allowed=SEED,
            key="seeds",
        ),
    ] = 0
    skip_impossible: Annotated[
        bool, ExperimentOption("Leave out jobs larger than the cluster, and say how many.", _yes_or_no)
    ] = False
    strict: Annotated[
        bool, ExperimentOption("Refuse a trace with rows that are otherwise left out and counted.", _yes_or_no)
    ] = False
    start: Annotated[
        str | float,
        ExperimentOption("Start of the window, from the trace's time 0: 12h, 7d.", check_time, "from", beside="trace"),
    ] = "0"
    end: Annotated[str | float | None, ExperimentOption("End of the window.", check_time, "to", beside="trace")] = None
    sample: Annotated[
        str | int | None, ExperimentOption("Jobs to take at random: 1000, or 10%.", _text, beside="trace")
    ] = None
    time_scale: Annotated[
        float, ExperimentOption("Multiply all times by this.", allowed=Range(1e-6, 1e6), beside="trace")
    ] = 1.0
    load: Annotated[
        float | None,
        ExperimentOption(
            "Scale the gaps to this load on --cluster.", allowed=Range(1e-3, 1e3), key="loads", beside="trace"
        ),
    ] = None

    def __post_init__(self) -> None:
        check_fields(self)

    @property
    def in_words(self) -> bool:
        """Whether every field can be written down; an object that was made in Python cannot."""
        return all(isinstance(getattr(self, name), PLAIN) for name in options())

    @property
    def settings(self) -> dict[str, Any]:
        """Every field in words. Where all can be written down, `headway.simulate(**settings)` runs it again."""
        return {name: _in_words(getattr(self, name)) for name in options()}

    @property
    def shaping(self) -> dict[str, Any]:
        """What is done to the trace before it runs: options of `workloads.shaping.shaped`."""
        return {name: getattr(self, name) for name, option in options().items() if option.beside == "trace"}

    @property
    def command(self) -> str | None:
        """The command line that runs this experiment; None where an object of Python is part of it."""
        return _command("simulate", self) if self.in_words else None


def options() -> Mapping[str, ExperimentOption]:
    """The fields of an experiment, in the order of the command line."""
    return options_of(Experiment)


def check(name: str, value: Any) -> Any:
    """The value of a field as an experiment keeps it; BadInput where it cannot be."""
    return options()[name].checked(value)


def _in_words(value: Any) -> Any:
    return value if isinstance(value, PLAIN) else str(getattr(value, "name", type(value).__name__))


def compare_command(experiments: Sequence[Experiment], seeds: int, stacks: str = "") -> str | None:
    """The command line that compares experiments which differ in their policies, or as stacks do; None where it cannot be written."""
    if not all(experiment.in_words for experiment in experiments):
        return None
    instead = {"policy": ["--policies", ",".join(experiment.policy for experiment in experiments)]}
    if stacks:
        from headway.sim.stacks import WORDS

        instead = {"policy": ["--stacks", stacks], **{word: [] for word in WORDS[1:]}}
    if seeds > 1:
        instead["seed"] = ["--seeds", str(seeds)]
    return _command("compare", experiments[0], instead)


def _command(verb: str, experiment: Experiment, instead: Mapping[str, list[str]] | None = None) -> str:
    """A command with its policy and all options that differ from the defaults; `instead` has words for some fields."""
    words = ["headway", verb]
    for name, option in options().items():
        value = getattr(experiment, name)
        if instead and name in instead:
            words += instead[name]
        elif value != option.default or name == "policy":
            words += option.written(value)
    return shlex.join(words)
