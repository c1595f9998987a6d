"""Groups of live jobs that a policy learns about: which row of the engine's table of groups a job has."""

from collections.abc import Iterable, Sequence

from headway.cluster.groups import Label, row_of
from headway.core.tables.groups import EVERY
from headway.live.jobfile.spec import JobSpec
from headway.live.state.engine import LiveEngine


class LiveGroups:
    """Rows of all groups that jobs have had. A row stays when its jobs have ended, because the policy has learnt from them."""

    def __init__(self, fields: Sequence[str], engine: LiveEngine) -> None:
        self._fields, self._engine = fields, engine
        self._rows: dict[Label, int] = {}

    @property
    def labels(self) -> list[Label]:
        """Return the labels of the groups, by row from 1 on."""
        return list(self._rows)

    def row_of(self, spec: JobSpec, user: str) -> int:
        """Return the row of a job that is added to memory."""
        row = row_of(self._rows, self._label(spec, user))
        self._engine.make_room_for_groups(len(self._rows) + 1)
        return row

    def row_ahead(self, spec: JobSpec, user: str) -> int:
        """Return the row of a job of a forecast; EVERY for a group that has no row yet."""
        return self._rows.get(self._label(spec, user), EVERY)

    def load(self, labels: Iterable[Sequence[str]]) -> None:
        """Load the groups of an earlier manager, whose table the engine has."""
        self._rows = {tuple(label): row for row, label in enumerate(labels, 1)}

    def _label(self, spec: JobSpec, user: str) -> Label:
        known = {"user": user, "name": spec.name, "queue": spec.queue, "model": "", "gpus": str(spec.gpus)}
        return tuple(known[field] for field in self._fields)
