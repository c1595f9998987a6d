"""The certificates in force: no job is started on a slice that the verifier does not accept, on the real fabric and beside the others.

The engine's own ledger decides who gets which links. This one is kept by the anchored check, which shares no code with it: a slice that
the engine gave wrongly, or twice, is found before a process runs on it.
"""

import json
from collections.abc import Iterable

from headway.errors import BadInput
from headway.live.fabric.served import Links, ServedFabric
from headway.live.fabric.slices import Slice
from headway.network.certificates.anchored import admitted
from headway.network.certificates.verify import Holding, holdings


class SliceLedger:
    """Who holds which GPUs and links by certificate. Used by the engine's thread alone."""

    def __init__(self, served: ServedFabric, running: Iterable[tuple[int, tuple[int, ...], Links]] = ()) -> None:
        """Jobs that an earlier manager started hold what they have: it was checked then, and the journal says the same."""
        self._served = served
        self._holder: dict[Holding, str] = {}
        self._held: dict[int, list[Holding]] = {}  # by job
        for job, gpus, links in running:
            if links or not served.spans(gpus):
                self._hold(job, holdings(served.certificate(gpus, links).as_json()))

    def admit(self, job: int, slice_of_job: Slice) -> None:
        """Take the certificate of a start; BadInput with the verifier's reason if it is not accepted."""
        self.give_back(job)
        if slice_of_job.certificate is None:
            return  # it shares links, and nothing is promised to it
        content, name = json.loads(slice_of_job.text), _name(job)
        try:
            admitted([(name, content)], self._served.fabric, in_force=self._holder)
        except BadInput as error:
            raise BadInput(f"its slice of {self._served.fabric.name}: {error.fields.get('why', error)}") from None
        self._hold(job, holdings(content))

    def give_back(self, job: int) -> None:
        """The job holds nothing any more."""
        for one in self._held.pop(job, ()):
            del self._holder[one]

    def _hold(self, job: int, things: list[Holding]) -> None:
        self._held[job] = [one for one in things if one not in self._holder]
        self._holder |= dict.fromkeys(self._held[job], _name(job))


def _name(job: int) -> str:
    return f"job {job}"
