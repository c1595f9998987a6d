# Two commands on a fresh machine (Python 3.11+, make): `make run` and `make test`.
PYTHON ?= python3
BIN := .venv/bin
STAMP := .venv/.installed
# Three at a time on two cores: many tests wait for processes (`make test WORKERS=1`: one at a time). tests/conftest.py orders the files.
WORKERS ?= 3
PYTEST := $(BIN)/python -m pytest -n $(WORKERS) --dist loadfile --no-loadscope-reorder
# A test that hangs is ended: far beyond the time-outs of tests/waiting.py.
LIMIT := --timeout 3600 --timeout-method thread
# make test-repeat [COUNT=10] [FILES=tests/unit/operate]
COUNT ?= 10
FILES ?= tests

.PHONY: run test test-long test-repeat system warm lint types bench clean

$(STAMP): pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install -qq --disable-pip-version-check -c constraints.txt -e '.[dev]' -e contrib/wiring
	@touch $@

run: $(STAMP)
	$(BIN)/headway demo

test: $(STAMP) system warm
	$(PYTEST) $(LIMIT)

test-long: $(STAMP) system warm
	HEADWAY_LONG=1 $(PYTEST)

# The tests that start processes, many times in a row, until one fails.
test-repeat: $(STAMP) system warm
	for round in $$(seq $(COUNT)); do $(PYTEST) $(LIMIT) -m processes -x $(FILES) || exit 1; done

# A browser (pictures of reports), iproute2 (routes in a real kernel) and Slurm, where they may be installed; the tests that need them are
# skipped loudly without them. The packages' own services are not started: policy-rc.d says no meanwhile.
# slurmdbd and MariaDB keep the accounts of a Slurm (9 MB to fetch, 50 MB on disk).
SLURM := slurm-wlm slurmctld slurmd slurm-client slurmrestd munge slurm-wlm-basic-plugins slurmdbd mariadb-server-core
NO_SERVICES := /usr/sbin/policy-rc.d
system:
	@if ! (command -v chromium && command -v ip && command -v slurmctld && command -v slurmrestd && command -v munged \
	    && command -v slurmdbd && command -v mariadbd) >/dev/null 2>&1; then \
	  if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; then \
	    [ -e $(NO_SERVICES) ] || { printf '#!/bin/sh\nexit 101\n' >$(NO_SERVICES); chmod +x $(NO_SERVICES); trap 'rm -f $(NO_SERVICES)' EXIT; }; \
	    apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends chromium iproute2 $(SLURM) >/dev/null \
	      || echo "system packages could not be installed: tests that need them are skipped"; \
	  else echo "no chromium, iproute2 or Slurm, and no right to install them: tests that need them are skipped"; fi; fi

# Compile the engine once, before several processes would at the same time.
warm: $(STAMP)
	$(BIN)/headway compare 'synthetic:tiresias-480?jobs=12' --cluster 8x8 --policies all

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports

types: $(STAMP)
	$(BIN)/mypy

bench: $(STAMP)
	$(BIN)/python -m bench

clean:
	rm -rf .venv .pytest_cache .mypy_cache .ruff_cache .hypothesis
