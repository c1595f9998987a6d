"""Import of code from outside Headway, named `module:NAME`; every failure is reported in one line.

Modules are looked for where Python looks for them, and last in the folder that the command is started from.
"""

import importlib
import inspect
import math
import re
import sys
import traceback
from collections.abc import Mapping
from typing import Any

from headway.errors import BadInput
from headway.io import specs
from headway.io.numbers import MOST_WHOLE, Range, plain_number

WHOLE = Range(-MOST_WHOLE, MOST_WHOLE, whole=True)
INFINITE = {"inf": math.inf, "-inf": -math.inf}


def imported(what: str, name: str) -> Any:
    """The object that `module:NAME` names; `what` it is for begins every message."""
    module, _, attribute = name.partition(":")
    if not attribute or not all(part.isidentifier() for part in module.split(".")):
        raise BadInput(f"{what} {name!r}: write MODULE:NAME, such as my_module:MyClass")
    if "" not in sys.path:
        sys.path.append("")
    try:
        loaded = importlib.import_module(module)
    except ImportError as error:
        raise BadInput(
            f"{what} {name!r}: cannot import {module!r} ({error}); is it in this folder or on PYTHONPATH?"
        ) from None
    except Exception as error:
        raise BadInput(f"{what} {name!r}: importing {module} failed: {raised(error, __file__)}") from None
    if not hasattr(loaded, attribute):
        raise BadInput(f"{what} {name!r}: {module} has no {attribute!r}")
    return getattr(loaded, attribute)


def is_outside(spec: str) -> bool:
    """Whether a spec, perhaps with options, names something from outside."""
    return ":" in spec.partition("?")[0]


def made(what: str, name: str, options: Mapping[str, str]) -> Any:
    """The object that `module:NAME` names; a class is called with the options, as numbers where it says that they are."""
    value = imported(what, name)
    if not isinstance(value, type):
        if options:
            raise BadInput(f"{what} {name!r} is a value and takes no options; make it a class to give it some")
        return value
    arguments = _arguments(f"{what} {name!r}", value, options)
    try:
        return value(**arguments)
    except Exception as error:
        call = f"{name.partition(':')[2]}({', '.join(options)})"
        raise BadInput(f"{what} {name!r}: {call} failed: {raised(error, __file__)}") from None


def _arguments(whose: str, kind: Any, options: Mapping[str, str]) -> dict[str, Any]:
    """The options as a class takes them: those that it has not are refused by name."""
    try:
        parameters = inspect.signature(kind, eval_str=True).parameters
    except (TypeError, ValueError, NameError):  # a class that does not say what it takes
        return dict(options)
    if not any(each.kind == each.VAR_KEYWORD for each in parameters.values()):
        specs.check(options, parameters, whose)
    annotations = {name: each.annotation for name, each in parameters.items()}
    return {name: _read(whose, name, text, annotations.get(name)) for name, text in options.items()}


def _read(whose: str, name: str, text: str, kind: Any) -> Any:
    """An option as the number that it is said to be, or as it was written."""
    if kind not in (int, float):
        return text
    value = WHOLE.read(text) if kind is int else INFINITE.get(text, plain_number(text))
    if value is None:
        raise BadInput(f"{whose}: {name}={text} is not {'a whole number' if kind is int else 'a number'}")
    return value


def raised(error: Exception, *ours: str) -> str:
    """An exception in one line, with the file and line that raised it unless that is one of `ours`."""
    if isinstance(error, SyntaxError):
        return f"SyntaxError: {error.msg} ({error.filename}, line {error.lineno})"
    outside = [
        frame
        for frame in traceback.extract_tb(error.__traceback__)
        if frame.lineno and frame.filename not in ours and not re.search("site-packages|^<", frame.filename)
    ]
    where = f" ({outside[-1].filename}, line {outside[-1].lineno})" if outside else ""
    return f"{type(error).__name__}: {' '.join(str(error).split())}{where}"
