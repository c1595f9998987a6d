"""Discovery of a manager: by the files that `headway serve` writes to its data folder, or by the environment of a job."""

import os
import stat
from dataclasses import dataclass
from pathlib import Path

from headway.errors import BadInput

DEFAULT_URL = "http://127.0.0.1:8642"
TOKEN_FILE = "token"
URL_FILE = "url"
CERTIFICATE_FILE = "certificate.pem"
MOST_BYTES = 1 << 20  # of each file
DATA_HELP = (
    "The manager's data folder, which holds its address and token; default: $HEADWAY_DATA or ~/.local/share/headway."
)
OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A manager's address, the token for it, the one certificate to trust (PEM), and the user who runs it; None: not known."""

    url: str
    token: str = ""
    certificate: str | None = None
    owner: int | None = None


def data_folder(given: Path | None = None) -> Path:
    """Return the manager's data folder: as given, or `HEADWAY_DATA`, or the user's own folder for data."""
    if given is not None:
        return given
    if "HEADWAY_DATA" in os.environ:
        return Path(os.environ["HEADWAY_DATA"])
    return Path(os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share") / "headway"


def find_manager(url: str | None = None, token: str | None = None, data: Path | None = None) -> Endpoint:
    """Return the manager to use. The token of a data folder goes only to the address that its manager wrote beside it."""
    folder = _Folder(data_folder(data))
    environment = os.environ if data is None else {}
    url = url or environment.get("HEADWAY_API") or folder.url
    token = token or environment.get("HEADWAY_TOKEN") or ""
    certificate, owner = None, None
    if url.rstrip("/") == folder.url.rstrip("/"):
        folder.refuse_loose()
        certificate = folder.texts.get(CERTIFICATE_FILE)
        if not token and (token := folder.texts.get(TOKEN_FILE, "")):
            owner = folder.owner
    if environment.get("HEADWAY_CERT"):
        certificate = _certificate(Path(environment["HEADWAY_CERT"]))
    return Endpoint(url, token, certificate, owner)


class _Folder:
    """The files that a manager wrote for its clients. All are read from one folder, even if another takes its path meanwhile."""

    def __init__(self, path: Path) -> None:
        self.owner: int | None = None
        self.texts: dict[str, str] = {}
        self._loose: list[str] = []
        try:
            handle = os.open(path, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        except OSError:
            return
        try:
            status = os.fstat(handle)
            self.owner = status.st_uid
            if status.st_mode & OTHERS_WRITE:
                self._loose.append(str(path))
            for name in (URL_FILE, TOKEN_FILE, CERTIFICATE_FILE):
                self._read(path / name, handle)
        finally:
            os.close(handle)

    @property
    def url(self) -> str:
        """Return the address that the manager wrote, or the default."""
        return self.texts.get(URL_FILE) or DEFAULT_URL

    def refuse_loose(self) -> None:
        """Refuse a folder that other users could have changed: its address says where the token goes."""
        if self._loose:
            raise BadInput(
                f"{self._loose[0]} could have been changed by other users, so no token is sent: "
                "check what is in it, then chown and chmod go-w it; or set HEADWAY_API and HEADWAY_TOKEN"
            )

    def _read(self, path: Path, folder: int) -> None:
        """Read a file of the folder. In another user's folder, links, and files of the caller's, may hold secrets of the caller's."""
        trusted = {0, os.geteuid()}
        users = trusted if self.owner in trusted else {self.owner}
        try:
            flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
            with open(os.open(path.name, flags, dir_fd=folder), "rb") as file:
                status = os.fstat(file.fileno())
                if not stat.S_ISREG(status.st_mode) or status.st_mode & OTHERS_WRITE or status.st_uid not in users:
                    self._loose.append(str(path))
                else:
                    self.texts[path.name] = file.read(MOST_BYTES).decode("ascii").strip()
        except (OSError, UnicodeDecodeError):
            if os.path.islink(path):  # False if the folder cannot be searched
                self._loose.append(str(path))


def _certificate(path: Path) -> str:
    try:
        return path.read_text(encoding="ascii")
    except (OSError, UnicodeDecodeError) as error:
        raise BadInput(f"HEADWAY_CERT {path} is no certificate in PEM: {error}") from None
