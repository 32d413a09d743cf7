# The two commands: `make demo` and `make test`. Each sets up the project's own venv first.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready

.DEFAULT_GOAL := help
.PHONY: help demo test lint types unit arviz docs bench clean

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

arviz:  ## the tests that meet arviz, with arviz 1.x: make arviz PYTHON=python3.12
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 12) and "arviz 1.x needs Python 3.12 or newer: make arviz PYTHON=python3.12")'
	$(PYTHON) -m venv $(VENV)-arviz
	grep -v '^arviz==' constraints.txt > $(VENV)-arviz/constraints.txt
	$(VENV)-arviz/bin/python -m pip install --quiet --disable-pip-version-check -c $(VENV)-arviz/constraints.txt -e '.[dev]' 'arviz>=1,<2'
	$(VENV)-arviz/bin/pytest tests/test_convergence.py tests/test_posterior.py tests/diagnostics tests/report

docs: $(READY)  ## the documentation as a site, built strictly and without a network
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[docs]'
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

bench: $(READY)  ## every benchmark, as ratios taken in one run
	for file in benchmarks/bench_*.py; do echo "== $$file"; $(BIN)/python $$file || exit 1; done

clean:  ## remove the venv and all caches
	rm -rf $(VENV) $(VENV)-arviz site .cache .mypy_cache .pytest_cache .ruff_cache .hypothesis
