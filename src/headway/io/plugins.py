"""Things from outside Headway, written `module:Name`: policies, placements and whatever else can be given by name."""

import importlib
import traceback
from collections.abc import Mapping
from typing import Any

from headway.errors import BadInput


def is_outside(spec: str) -> bool:
    """Whether a spec names something from outside: `module:Name`, perhaps with options."""
    return ":" in spec.partition("?")[0]


def from_module(kind: str, name: str, given: Mapping[str, str]) -> Any:
    """What `module:Name` is; a class is called with the options. `kind` is for messages."""
    module, _, attribute = name.partition(":")
    if not attribute or not all(part.isidentifier() for part in module.split(".")):
        raise BadInput(f"{kind} {name!r}: write MODULE:CLASS, such as my_module:MyClass")
    try:
        found = getattr(importlib.import_module(module), attribute)
    except ImportError as error:
        raise BadInput(f"{kind} {name!r}: cannot import {module!r} ({error}); is it on PYTHONPATH?") from None
    except AttributeError as error:
        if getattr(error, "name", None) != attribute:  # raised inside the module
            raise BadInput(f"{kind} {name!r}: importing {module} failed: {raised(error)}") from None
        raise BadInput(f"{kind} {name!r}: {module} has no {attribute!r}") from None
    except Exception as error:
        raise BadInput(f"{kind} {name!r}: importing {module} failed: {raised(error)}") from None
    if not isinstance(found, type):
        if given:
            raise BadInput(f"{kind} {name!r} is a value and takes no options; make it a class to give it some")
        return found
    try:
        return found(**given)
    except Exception as error:
        raise BadInput(f"{kind} {name!r}: {attribute}({', '.join(given)}) failed: {raised(error)}") from None


def raised(error: Exception) -> str:
    """An exception in one line, with the place unless Headway's own call raised it."""
    said = f"{type(error).__name__}: {' '.join(str(error).split())}"
    if isinstance(error, SyntaxError):
        return f"SyntaxError: {error.msg} ({error.filename}, line {error.lineno})"
    frames = traceback.extract_tb(error.__traceback__)
    ours = (__file__, "site-packages", "<frozen ")  # the last: the machinery of import
    inside = [at for at in frames[1:] if at.lineno and not any(part in at.filename for part in ours)]
    return f"{said} ({inside[-1].filename}, line {inside[-1].lineno})" if inside else said
