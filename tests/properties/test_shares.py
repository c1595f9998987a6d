"""Shares of backlogged teams over time: a small version of bench/shares.py."""

import math

import pytest
from bench.shares import MIXES, error, queues_of, used_gpu_s

NODES, DAYS = 5, 6.0


def largest_error(mix, policy, half_life_s):
    return error(mix, used_gpu_s(mix, policy, queues_of(mix, half_life_s, 600.0), NODES, DAYS, 0))


@pytest.mark.parametrize("policy", ["headway", "best-effort", "backfill", "srtf", "tiresias-l"])
@pytest.mark.parametrize("mix", MIXES[:2], ids=lambda mix: mix.name)
def test_backlogged_teams_get_their_shares_within_5_percent(policy, mix):
    assert largest_error(mix, policy, 86400.0) < 0.05


def test_under_sjf_shares_are_kept_if_small_jobs_always_wait():
    """Under sjf a team may have only large jobs left, none of which fits (bench/shares.py)."""
    assert largest_error(MIXES[2], "sjf", 86400.0) < 0.05
    assert largest_error(MIXES[0], "sjf", 86400.0) > 0.1


def test_without_memory_shares_are_off():
    assert largest_error(MIXES[0], "best-effort", math.inf) > 0.1
