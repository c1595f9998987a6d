"""Loads the compiled engine when it is imported: for the server that a sweep's workers are forked from."""

import headway.sim.api  # noqa: F401
from headway.sim.loop import drive_compiled

ENGINE = drive_compiled.entry
