"""A simulation ends with an error if a job can never start, also under policies that look again after every quantum."""

import pytest

from headway.errors import BadInput
from headway.sim.api import simulate
from headway.workloads.workload import workload


@pytest.mark.parametrize("policy", ["fifo", "las", "2d-las", "gittins"])
def test_a_job_that_no_slice_can_hold_ends_the_simulation(policy):
    jobs = workload("one", [0.0], [512], [100.0])
    with pytest.raises(BadInput, match="1 job can never start under this placement"):
        simulate(jobs, "vclos-512", policy, placement="vclos", network="isolated?failed=spine0")
