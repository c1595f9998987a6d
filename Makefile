# Two commands on a fresh machine (Python 3.11+, make): `make run` and `make test`.
PYTHON ?= python3
BIN := .venv/bin
STAMP := .venv/.installed

.PHONY: run test test-long lint types bench clean

$(STAMP): pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	@touch $@

run: $(STAMP)
	$(BIN)/headway compare synthetic:tiresias-480 --cluster 15x4 --policies fifo,best-effort,srtf,gandiva,tiresias-l,tiresias-g

test: $(STAMP)
	$(BIN)/python -m pytest -n 2 --dist loadgroup

test-long: $(STAMP)
	HEADWAY_LONG=1 $(BIN)/python -m pytest -n 2 --dist loadgroup

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
