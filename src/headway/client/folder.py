"""Where a manager is found: the files that `headway serve` leaves in its data folder, and the environment of a job."""

import os
from pathlib import Path

DEFAULT_URL = "http://127.0.0.1:8642"
TOKEN_FILE = "token"
URL_FILE = "url"
CERTIFICATE_FILE = "certificate.pem"


def data_folder(given: Path | None = None) -> Path:
    """Where the manager keeps its state: as given, or `HEADWAY_DATA`, or the user's own folder for data."""
    if given is not None:
        return given
    if "HEADWAY_DATA" in os.environ:
        return Path(os.environ["HEADWAY_DATA"])
    return Path(os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share") / "headway"


def find_manager(url: str | None = None, token: str | None = None, data: Path | None = None) -> tuple[str, str]:
    """The address and the token to use. The owner's token goes only to the address that its manager wrote beside it."""
    folder = data_folder(data)
    written = _read(folder / URL_FILE)
    url = url or (os.environ.get("HEADWAY_API") if data is None else None) or written or DEFAULT_URL
    token = token or (os.environ.get("HEADWAY_TOKEN") if data is None else None)
    if not token and url.rstrip("/") == (written or DEFAULT_URL).rstrip("/"):
        token = _read(folder / TOKEN_FILE)
    return url, token or ""


def find_certificate(url: str, data: Path | None = None) -> Path | None:
    """The one certificate to trust at this address: `HEADWAY_CERT`, or the one that its manager left beside the address."""
    if data is None and os.environ.get("HEADWAY_CERT"):
        return Path(os.environ["HEADWAY_CERT"])
    folder = data_folder(data)
    left = folder / CERTIFICATE_FILE
    return left if url.rstrip("/") == _read(folder / URL_FILE).rstrip("/") and left.is_file() else None


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError):
        return ""
