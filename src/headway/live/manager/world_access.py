"""The base of what request handlers call: the world of a manager and its parts."""

from headway.live.manager.followers import Followers
from headway.live.manager.loop.world import LiveWorld


class WorldAccess:
    """Access to the world. Queries hold its lock while they read the state; commands use `ask`."""

    def __init__(self, world: LiveWorld) -> None:
        self._world, self._state, self._journal = world, world.state, world.journal
        self._executor = world.performer.executor
        self.clock = world.clock
        self.followers = Followers(lambda job, attempt: self._executor.logs(job, attempt))
        world.writer.on_commit = self.followers.tell
