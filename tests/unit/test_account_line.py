"""The account of a team in one line."""

import math

import numpy as np

from headway.core.tables.teams import TEAM
from headway.live.state.teams import account_line


def test_the_account_is_decayed_gpu_time_over_weight():
    team = np.zeros(1, TEAM)
    team["used"], team["usage"] = 2, 7200.0
    # Until 3600 s, 2 GPUs for an hour are added and all is halved; then 2 GPUs for half an hour.
    line = account_line(team[0], 2.0, 3600.0, 5400.0)
    assert line == "3.0 GPU-h with a half-life of 1 h, 1.5 over weight 2"


def test_without_memory_there_is_no_account():
    assert account_line(np.zeros(1, TEAM)[0], 1.0, math.inf, 5400.0) == ""
