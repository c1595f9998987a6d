"""Received parts of a job's logs: complete lines to print, and the offset to resume from after a lost connection."""

import json
from collections.abc import Iterator

LONGEST_QUERY = 30_000  # addresses have at most 64 KiB for the manager, with three bytes for each of some signs
RESUME = "Headway-Resume"


class Received:
    """The parts of an answer, put together rank by rank."""

    def __init__(self, labelled: bool) -> None:
        self.labelled, self.done = labelled, False
        self._attempt = 0
        self._places: dict[int, int] = {}
        self._rest: dict[int, tuple[str, bytes]] = {}  # label and text of lines that have no end yet

    @property
    def resume(self) -> str | None:
        """Return the place to resume at; None: nothing has arrived."""
        if not self._places:
            return None
        return f"{self._attempt}:" + ",".join(f"{rank}={place}" for rank, place in self._places.items())

    @property
    def query(self) -> dict[str, str]:
        """Return the place to resume at as a query, unless it is too long for an address."""
        return {"resume": text} if (text := self.resume) and len(text) <= LONGEST_QUERY else {}

    @property
    def headers(self) -> dict[str, str]:
        """Return the place to resume at as a header, if it is too long for an address: a job may have thousands of ranks."""
        return {RESUME: text} if (text := self.resume) and len(text) > LONGEST_QUERY else {}

    def lines(self, part: bytes) -> Iterator[str]:
        """Yield the lines that a part completes."""
        content = json.loads(part)
        if content.get("done"):
            self.done = True
            yield from self._unfinished()
            return
        if content["attempt"] != self._attempt:
            yield from self._unfinished()
            if self._attempt:
                yield from ("", f"--- attempt {content['attempt']} ---")
            self._attempt, self._places = content["attempt"], {}
        rank = content["rank"]
        label = f"[{rank}] " if self.labelled and content["ranks"] > 1 else ""
        text = self._rest.pop(rank, ("", b""))[1] + content["text"].encode("utf-8", "surrogateescape")
        *whole, rest = text.split(b"\n")
        self._places[rank] = content["at"]
        if rest:
            self._rest[rank] = (label, rest)
        for line in whole:
            yield label + line.decode("utf-8", "replace")

    def _unfinished(self) -> Iterator[str]:
        for label, rest in self._rest.values():
            yield label + rest.decode("utf-8", "replace")
        self._rest.clear()
