"""The sweep file: lists of traces, clusters, policies and the rest in YAML; their grid is the experiments to run.

The keys are the fields of an experiment. Each takes one value or a list, and an entry of `traces` or `placements` may set some of the
others for itself.
"""

import itertools
import math
from pathlib import Path
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, create_model

from headway.errors import BadInput
from headway.io.yaml_file import read_yaml
from headway.sim.experiment import SEEDS, Experiment, ExperimentOption, check, options
from headway.sim.trace import has_seed

# More cells than this are a slip: a cell takes at least a few milliseconds, and has a file of its own.
MOST_CELLS = 1_000_000
# The trace varies slowest, so that workers read each one once; policies stand side by side.
SLOWEST, FASTEST = ("trace", "cluster", "seed"), ("policy",)
# Fields whose entries may set others: {placement: vclos, network: isolated}.
BESIDE = {
    name: tuple(other.name for other in options().values() if other.beside == name)
    for name in dict.fromkeys(option.beside for option in options().values() if option.beside)
}
EXAMPLES = {"policies": ["[fifo, tiresias-l]"], "seeds": ["3, or seeds: [0, 1, 2]"]}  # in messages
CONFIG = ConfigDict(extra="forbid", validate_default=True)


def _listed(value: Any) -> Any:
    """One value stands for a list of one."""
    return value if isinstance(value, list) else [value]


def _counted(value: Any) -> Any:
    """`seeds: 5` is 0 to 4."""
    if not isinstance(value, int) or isinstance(value, bool):
        return value
    if value not in SEEDS:
        raise ValueError(f"{value} is not {SEEDS}")
    return list(range(value))


def _one(option: ExperimentOption) -> Any:
    """The type of one value: what the experiment accepts, with names as text."""

    def checked(value: Any) -> Any:
        try:
            found: Any = policy_specs(value) if option.name == "policy" else check(option.name, value)
        except BadInput as error:
            raise ValueError(str(error)) from None  # pydantic adds the place in the file
        if option.name in ("trace", "cluster", "placement") and not isinstance(found, str):
            raise ValueError(f"{option.words} {value!r} is neither a name nor a path")
        if option.name == "trace" and has_seed(found):
            raise ValueError(f"a sweep draws {found} with its own seeds: leave out seed=, and write seeds: [0, 1]")
        return found

    return Annotated[Any, AfterValidator(checked)]


def _some(option: ExperimentOption) -> Any:
    """The type of one value or a list of them."""
    one = _entry(option) if option.name in BESIDE else _one(option)
    many = Annotated[list[one], BeforeValidator(_listed), Field(min_length=1)]  # type: ignore[valid-type]
    return Annotated[many, BeforeValidator(_counted)] if option.kind is int else many


def _entry(option: ExperimentOption) -> Any:
    """The type of an entry such as `{trace: jobs.csv, from: 7d, to: 14d}`; a name alone stands for one."""
    others = [options()[name] for name in BESIDE[option.name]]
    keys: dict[str, Any] = {option.name: (_one(option), ...)}
    keys |= {other.name: (_some(other), Field(None, alias=other.word, validate_default=False)) for other in others}
    model = create_model(f"{option.name.capitalize()}Entry", __config__=CONFIG, **keys)
    return Annotated[model, BeforeValidator(lambda value: value if isinstance(value, dict) else {option.name: value})]


def _key(option: ExperimentOption) -> Any:
    """The type and the default of a key of the file."""
    default = ... if option.default is ... else [option.default]
    key = option.key or option.word
    return _some(option), Field(default, alias=key, examples=EXAMPLES.get(key))


SweepFile = create_model("SweepFile", __config__=CONFIG, **{name: _key(option) for name, option in options().items()})


def read_sweep(path: Path) -> BaseModel:
    """Read and check a sweep file."""
    return read_yaml(path, SweepFile, "sweep")


def cells(sweep: BaseModel) -> list[Experiment]:
    """The grid in a fixed order, without doubles."""
    last = {*SLOWEST, *FASTEST, *itertools.chain(*BESIDE.values())}
    order = (*SLOWEST, *(name for name in options() if name not in last), *FASTEST)
    axes = [_axis(sweep, name) for name in order]
    count = math.prod(map(len, axes))
    if count > MOST_CELLS:
        raise BadInput(f"the sweep has {count:,} cells: at most {MOST_CELLS:,} are allowed")
    grid = (dict(itertools.chain(*(part.items() for part in point))) for point in itertools.product(*axes))
    return list(dict.fromkeys(Experiment(**settings) for settings in grid))


def _axis(sweep: BaseModel, name: str) -> list[dict[str, Any]]:
    """The values of a field, each with the fields that its entry may set: as it set them, or as the sweep lists them."""
    values = getattr(sweep, name)
    if name == "policy":
        values = itertools.chain(*values)
    if name not in BESIDE:
        return [{name: value} for value in values]
    names = (name, *BESIDE[name])
    points = []
    for entry in values:
        own = ([getattr(entry, name)], *(getattr(entry, other) or getattr(sweep, other) for other in BESIDE[name]))
        points += [dict(zip(names, point, strict=True)) for point in itertools.product(*own)]
    return points


def policy_specs(entry: Any) -> list[str]:
    """`{policy: tiresias-l, threshold: [1600, 3200]}` is two specs, `tiresias-l?threshold=1600` and `...=3200`."""
    if isinstance(entry, str):
        return [entry]
    if not isinstance(entry, dict) or not isinstance(entry.get("policy"), str):
        raise BadInput(f"{entry} needs the key policy, such as {{policy: tiresias-l, threshold: [1600, 3200]}}")
    choices = {key: _listed(value) for key, value in entry.items() if key != "policy"}
    specs = []
    for values in itertools.product(*choices.values()):
        query = "&".join(f"{key}={_plain(value)}" for key, value in zip(choices, values, strict=True))
        specs.append(f"{entry['policy']}?{query}" if query else str(entry["policy"]))
    return specs


def _plain(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:g}" if isinstance(value, float) else str(value)
