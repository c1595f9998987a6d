"""The objects that all request handlers share."""

from headway.live.manager.followers import Followers
from headway.live.manager.world import LiveWorld


class Door:
    """The world of a manager and its parts. What reads the state takes the world's lock, what changes it asks the world to."""

    def __init__(self, world: LiveWorld) -> None:
        self._world, self._state, self._journal, self._executor = world, world.state, world.journal, world.executor
        self.clock = world.clock
        self.followers = Followers(lambda job, attempt: self._executor.logs(job, attempt))
        world.on_commit = self.followers.tell
