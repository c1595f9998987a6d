"""Run benches: `python -m bench` the quick ones, `python -m bench engine traces` those named, `python -m bench all` every one."""

import importlib
import pkgutil
import sys
import time
from pathlib import Path

# What is quick and measures speed. The others write tables of results, or take many minutes.
QUICK = ("engine", "traces", "collective", "fabric", "collisions", "sharing")


def found() -> list[str]:
    """The modules of this folder that have something to run."""
    folder = Path(__file__).parent
    names = [module.name for module in pkgutil.iter_modules([str(folder)]) if not module.name.startswith("_")]
    return [name for name in names if "def main(" in (folder / f"{name}.py").read_text("utf-8")]


def main() -> None:
    """Run the named benches one after the other, each under a heading; a bench that fails does not stop the next."""
    names, given = found(), sys.argv[1:]
    if unknown := [name for name in given if name not in names and name != "all"]:
        raise SystemExit(f"no bench {', '.join(map(repr, unknown))}: one of {', '.join(names)}, or all")
    chosen = names if "all" in given else given or [name for name in QUICK if name in names]
    failed = []
    for name in chosen:
        print(f"\n=== {name} " + "=" * max(0, 70 - len(name)), flush=True)
        began = time.process_time()
        sys.argv = [f"bench.{name}"]  # a bench reads its own words, not ours
        try:
            importlib.import_module(f"bench.{name}").main()
        except Exception as error:
            failed.append(name)
            print(f"FAILED: {type(error).__name__}: {error}", flush=True)
        print(f"--- {name}: {time.process_time() - began:.1f} CPU s", flush=True)
    if failed:
        raise SystemExit(f"failed: {', '.join(failed)}")


if __name__ == "__main__":
    main()
