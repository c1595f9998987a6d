"""The journal as a file: facts about no job, changes of rate and promised places are written as what they are."""

import pytest

import headway
from headway.sim.results.output import journal_entries


def entries(policy: str, **given: str) -> list[dict]:
    result = headway.simulate("synthetic:tiresias-480?jobs=60", "4x8", policy, keep_journal=True, **given)
    return list(journal_entries(result.run))


def test_a_refit_is_about_no_job():
    refits = [entry for entry in entries("gittins") if entry["kind"] == "Refitted"]
    assert refits
    assert all(entry["job_id"] is None and entry["gpus"] == 0 for entry in refits)


def test_a_promise_names_its_nodes_and_a_rate_its_speed():
    found = entries("gandiva", preemption_cost="30s", slowdown="model", placement="spread")
    promises = [entry for entry in found if entry["kind"] == "Promise"]
    rates = [entry["rate"] for entry in found if entry["kind"] == "Rated"]
    assert promises
    # One without places is withdrawn.
    assert all(sum(entry["places"].values()) in (entry["gpus"], 0) for entry in promises)
    assert any(entry["places"] for entry in promises)
    assert min(rates) < 1.0
    assert max(rates) == pytest.approx(1.0)
