"""Executors by name: every folder beside this file but `common` is one, and `module:Class` names one from outside Headway."""

import inspect
import pkgutil
from pathlib import Path
from typing import Any

from headway.errors import BadInput, HeadwayError, unknown
from headway.io.outside import imported, is_outside, raised
from headway.io.specs import split
from headway.live import executors
from headway.live.executors import Executor

DEFAULT = "process"
COMMON = "common"  # parts that executors share


def executor_names() -> list[str]:
    """Return the names of the executors that come with Headway."""
    packages = {module.name for module in pkgutil.iter_modules(executors.__path__) if module.ispkg}
    return sorted(packages - {COMMON})


def find_executor(spec: str, data: Path) -> Executor:
    """Return the executor of this name for a data folder. Its package has the class under the name `EXECUTOR`.

    Options follow the name, as in `slurm?partition=gpu`; a class that takes none refuses them.
    """
    name, options = split(spec)
    if not is_outside(name) and name not in executor_names():
        raise unknown("executor", name, executor_names())
    kind = imported("executor", name if is_outside(name) else f"{executors.__name__}.{name}:EXECUTOR")
    if not isinstance(kind, type) or not issubclass(kind, Executor):
        raise BadInput(
            f"executor {name!r} is not a subclass of Executor: derive it from headway.live.executors.Executor"
        )
    if missing := sorted(kind.__abstractmethods__):
        raise BadInput(f"executor {name!r} lacks methods: define {', '.join(missing)}")
    if options and "options" not in inspect.signature(kind).parameters:
        raise BadInput(f"executor {name!r} takes no options: leave out {', '.join(options)}")
    try:
        make: Any = kind
        executor: Executor = make(data, options) if options else make(data)
    except HeadwayError:
        raise
    except Exception as error:  # a class from outside may raise anything
        raise BadInput(f"executor {name!r}: {kind.__name__}(data) failed: {raised(error, __file__)}") from None
    if "runs" not in vars(executor):
        raise BadInput(f"executor {name!r}: its constructor must call super().__init__(data)")
    return executor
