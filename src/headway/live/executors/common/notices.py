"""The notice in an attempt's folder: when the GPUs of the attempt are taken back."""

import json
from pathlib import Path

NOTICE = "notice.json"


def write_notice(folder: Path, until: float | None) -> None:
    """Write when the GPUs of an attempt are taken back, by the wall clock, or remove that; the job reads it (headway.runtime.notice)."""
    if until is None:
        (folder / NOTICE).unlink(missing_ok=True)
        return
    aside = folder / f".{NOTICE}"
    aside.write_text(json.dumps({"until": until}), encoding="ascii")
    aside.chmod(0o644)
    aside.rename(folder / NOTICE)
