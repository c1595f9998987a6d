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
    """The GPUs and links that jobs hold by certificate. Only the engine's thread uses it."""

    def __init__(self, served: ServedFabric, running: Iterable[tuple[int, tuple[int, ...], Links]] = ()) -> None:
        """Enter the jobs that run already. An earlier manager has checked their certificates."""
        self._served = served
        self._holder: dict[Holding, str] = {}
        self._held: dict[int, list[Holding]] = {}  # by job
        for job, gpus, links in running:
            if links or not served.spans(gpus):
                self._hold(job, holdings(served.certificate(gpus, links).as_json()))

    def admit(self, job: int, slice_of_job: Slice) -> None:
        """Enter the slice of an attempt that starts; BadInput with the reason if the verifier refuses its certificate."""
        self.give_back(job)
        if slice_of_job.certificate is None:
            return  # the job shares its links
        content, name = json.loads(slice_of_job.text), _name(job)
        try:
            admitted([(name, content)], self._served.fabric, in_force=self._holder)
        except BadInput as error:
            raise BadInput(f"its slice of {self._served.fabric.name}: {error.fields.get('why', error)}") from None
        self._hold(job, holdings(content))

    def give_back(self, job: int) -> None:
        """Remove the GPUs and links of a job."""
        for holding in self._held.pop(job, ()):
            del self._holder[holding]

    def _hold(self, job: int, all_holdings: list[Holding]) -> None:
        self._held[job] = [holding for holding in all_holdings if holding not in self._holder]
        self._holder |= dict.fromkeys(self._held[job], _name(job))


def _name(job: int) -> str:
    return f"job {job}"
