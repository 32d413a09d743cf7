# The two commands: `make demo` and `make test`. Each sets up the project's own venv first.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready

.DEFAULT_GOAL := help
.PHONY: help demo test lint types unit docs bench clean

help:  ## show this list
	@grep -hE '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/'

$(READY): pyproject.toml constraints.txt
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "suffice needs Python 3.11 or newer: make PYTHON=python3.11")'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	touch $(READY)

demo: $(READY)  ## the main job, on an embedded example
	$(BIN)/suffice demo

test: lint types unit  ## lint, types and tests

lint: $(READY)  ## style of code
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(READY)  ## static types
	$(BIN)/mypy

# Oracles and statistical tests run the kernels that users run; for all others XLA's older emitters are ready in half the time.
unit: $(READY)  ## the tests alone
	XLA_FLAGS=--xla_cpu_use_fusion_emitters=false $(BIN)/pytest --ignore tests/oracles --ignore tests/statistical
	$(BIN)/pytest tests/oracles tests/statistical

docs: $(READY)  ## the documentation as a site, built strictly and without a network
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[docs]'
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

bench: $(READY)  ## every benchmark, as ratios taken in one run
	for file in benchmarks/bench_*.py; do echo "== $$file"; $(BIN)/python $$file || exit 1; done

clean:  ## remove the venv and all caches
	rm -rf $(VENV) site .cache .mypy_cache .pytest_cache .ruff_cache .hypothesis
