"""How soon `headway` starts, and how long the first compile takes, in CPU seconds and as ratios that do not depend on the machine.

Run: python -m bench.startup            all of it; the first compile takes about a minute
     python -m bench.startup --warm     without the first compile

Every figure is the least of several runs that take turns. A warm `headway simulate` of ten jobs and `headway --help` are held against a
Python that only imports numba and typer; the first compile is held against numba compiling one small function in a new process. Byte
code is kept in a folder of its own, as it is in an installation, whatever PYTHONDONTWRITEBYTECODE says.
"""

import os
import resource
import subprocess
import sys
import tempfile
from pathlib import Path

SIMULATE = ["simulate", "synthetic:tiresias-480?jobs=10", "--cluster", "8x8"]
IMPORTS = [sys.executable, "-c", "import numba, typer"]
SMALL = [
    sys.executable,
    "-c",
    "import numba\n@numba.njit\ndef f(x):\n    return x.sum() + 1.0\nimport numpy\nf(numpy.ones(3))",
]
TURNS, WARM_TARGET, COMPILE_TARGET_S = 7, 2.2, 30.0


def headway(*words: str) -> list[str]:
    """The command, as its entry point runs it."""
    return [sys.executable, "-c", "from headway.cli.main import main; main()", *words]


def cpu_s(command: list[str], environment: dict[str, str]) -> tuple[float, str]:
    """User and system CPU seconds of a command, and what it said on stderr."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment, timeout=900)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime, done.stderr


def least(commands: dict[str, list[str]], environment: dict[str, str], turns: int = TURNS) -> dict[str, float]:
    """The least CPU seconds of each command, which take turns."""
    found = dict.fromkeys(commands, float("inf"))
    for _ in range(turns):
        for name, command in commands.items():
            found[name] = min(found[name], cpu_s(command, environment)[0])
    return found


def first_compile(environment: dict[str, str]) -> None:
    """The first run with an empty cache."""
    yardstick = least({"small": SMALL, "imports": IMPORTS}, environment, 3)
    spent, said = cpu_s(headway(*SIMULATE), environment)
    small = yardstick["small"] - yardstick["imports"]
    met = "met" if spent <= COMPILE_TARGET_S else "MISSED"
    print(
        f"first compile: {spent:.1f} CPU s (target {COMPILE_TARGET_S:g}: {met}), {spent / small:.0f} x one small function of numba "
        f"({small:.2f} CPU s); said: {said.strip()!r}",
        flush=True,
    )


def main() -> None:
    """Print all figures."""
    print("python -m bench.startup")
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    with tempfile.TemporaryDirectory() as folder:
        environment |= {"PYTHONPYCACHEPREFIX": str(Path(folder) / "byte code")}
        if "--warm" not in sys.argv:
            environment |= {"NUMBA_CACHE_DIR": str(Path(folder) / "kernels")}
            first_compile(environment)
        commands = {"imports": IMPORTS, "simulate": headway(*SIMULATE), "help": headway("--help")}
        least(commands, environment, 1)  # compiles, if need be
        found = least(commands, environment)
    ratio = found["simulate"] / found["imports"]
    met = "met" if ratio <= WARM_TARGET else "MISSED"
    print(
        f"warm `headway simulate` of ten jobs: {found['simulate']:.2f} CPU s, {ratio:.2f} x `import numba, typer` at "
        f"{found['imports']:.2f} (target {WARM_TARGET}: {met})"
    )
    print(f"`headway --help`: {found['help']:.2f} CPU s, {found['help'] / found['imports']:.2f} x")


if __name__ == "__main__":
    main()
