"""The folder of an attempt: the journal that it belongs to, and the notice for its job. Every executor keeps `launch.json` there."""

import itertools
import json
from collections.abc import Iterator
from pathlib import Path

from headway.live.executors.common import whole_files

LAUNCH = "launch.json"  # written before the first rank begins; its field `journal` names the journal of the attempt
NOTICE = "notice.json"


def journal_of(folder: Path) -> str | None:
    """Return the identity of the journal that an attempt belongs to; None: there is no such attempt; "" if launch.json is damaged."""
    if not (folder / LAUNCH).exists():
        return None
    return str((whole_files.read(str(folder), LAUNCH) or {}).get("journal", ""))


def attempts_in(runs: Path) -> Iterator[tuple[int, int, Path]]:
    """Yield job, attempt and folder of each attempt in the folder of runs."""
    for folder in sorted(runs.glob("*/*")):
        if folder.name.isdigit() and folder.parent.name.isdigit() and (folder / LAUNCH).exists():
            yield int(folder.parent.name), int(folder.name), folder


def set_aside(folder: Path) -> Path:
    """Rename the folder of an attempt of a lost journal, so that its number can be used again; return the new path."""
    places = (folder.with_name(f"{folder.name}.before-{number}") for number in itertools.count(1))
    return folder.rename(next(place for place in places if not place.exists()))


def write_notice(folder: Path, until: float | None) -> None:
    """Write when the GPUs of an attempt are taken back, by the wall clock, or remove the notice. The job reads it (runtime.notice)."""
    if until is None:
        (folder / NOTICE).unlink(missing_ok=True)
        return
    aside = folder / f".{NOTICE}"
    aside.write_text(json.dumps({"until": until}), encoding="ascii")
    aside.chmod(0o644)
    aside.rename(folder / NOTICE)
