"""How fast traces are read: 125,303 Helios rows, and a synthetic CSV of 1,000,000 rows. Run: python -m bench.traces"""

import os
import resource
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from headway.workloads.load import load
from headway.workloads.synthetic import synthetic
from headway.workloads.write import write_csv

ROOT = Path(__file__).parents[1]
TRACES = Path(os.environ.get("HEADWAY_TRACES", ROOT.parent / "shared" / "traces"))
ROWS = 1_000_000


def main() -> None:
    """Print CPU seconds of each step, and the ratio to reading the bytes without looking at them."""
    print("python -m bench.traces")
    helios = TRACES / "helios_venus_125k.csv.gz"
    if helios.is_file():
        show("read 125,303 Helios rows (.csv.gz)", lambda: load(str(helios)), lambda: split_only(helios))
    else:
        print(f"no {helios.name} in {TRACES}: set HEADWAY_TRACES")
    for name in ("tiresias-480", "philly", "helios"):
        show(f"make {ROWS:,} jobs of synthetic:{name}", lambda name=name: synthetic(f"{name}?jobs={ROWS}"))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "million.csv"
        jobs = synthetic(f"philly?jobs={ROWS}")
        show(f"write {ROWS:,} rows (.csv)", lambda: write_csv(jobs, path))
        show(f"read {ROWS:,} rows (.csv)", lambda: load(str(path)), lambda: split_only(path))
    print(f"most memory: {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:,.0f} MB")


def split_only(path: Path) -> int:
    """The least a reader written in Python can do: unpack, and split every row."""
    import csv
    import gzip
    import io

    raw = path.read_bytes()
    text = (gzip.decompress(raw) if path.suffix == ".gz" else raw).decode()
    return sum(1 for _ in csv.reader(io.StringIO(text)))


def show(what: str, work: Callable[[], object], floor: Callable[[], object] | None = None) -> None:
    """CPU seconds of the faster of two runs, and how many times the floor that is."""
    seconds = min(cpu_s(work) for _ in range(2))
    ratio = f", {seconds / cpu_s(floor):.1f} x splitting the rows with csv.reader" if floor is not None else ""
    print(f"{what}: {seconds:.2f} CPU s{ratio}", flush=True)


def cpu_s(work: Callable[[], object]) -> float:
    """CPU seconds of this process for one call."""
    start = time.process_time()
    work()
    return time.process_time() - start


if __name__ == "__main__":
    main()
