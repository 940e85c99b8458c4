# `make` alone lists what there is. Everything that needs .venv sees to it first.
.DEFAULT_GOAL := help
.PHONY: help setup demo test test-cluster check docs lock audit values metrics pictures bench fuzz chaos clean

BIN := .venv/bin

help: ## list the targets
	@sed -n 's/^\([a-z-]*\):[^#]*## /  make \1\t/p' $(firstword $(MAKEFILE_LIST)) | expand -t 20

setup: ## make .venv, with Java; at once when it is up to date
	@sh scripts/setup

demo: setup ## run Market Spread on generated data and check every output
	@$(BIN)/wallaroo demo market_spread

# In several processes: most of a test on Spark is waiting for processes to start.
test: setup ## run every test (ARGS="-k name" for some, ARGS="-n 0" one after the other)
	@$(BIN)/python -m pytest -n auto --maxprocesses 4 --dist worksteal $(ARGS)

test-cluster: setup ## run the tests on the cluster of kubectl's current context (docs/kubernetes.md)
	@$(BIN)/python -m pytest tests/cluster -m cluster $(ARGS)

check: setup ## formatting, lint, types, the direction of imports, documentation
	@failed=0; for check in "ruff format --check ." "ruff check ." mypy lint-imports; do \
		echo "$$check"; $(BIN)/$$check || failed=1; \
	done; $(MAKE) --no-print-directory docs || failed=1; exit $$failed # each of them, also when one failed: one run tells all there is to mend

docs: setup ## build the documentation into build/docs; a warning is an error
	@echo "mkdocs build"; told=$$(NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build 2>&1) || \
		{ echo "$$told"; exit 1; }

bench: setup ## run the benchmarks (ARGS for their options)
	@$(BIN)/python -m benchmarks $(ARGS)

# Made on the oldest Python, whose packages are a superset of those of the newer ones. Without
# pip's configuration of the machine: it would make the lock that machine's.
# Upgrades everything that pyproject.toml lets: `make lock ARGS=--upgrade`.
lock: setup ## write requirements.lock anew from pyproject.toml
	@$(BIN)/python -c 'import sys; sys.exit(sys.version_info[:2] != (3, 11) and \
		"make lock: the lock is made on Python 3.11: rm -r .venv, then PYTHON=python3.11 make lock")'
	@env -u PIP_FIND_LINKS -u PIP_INDEX_URL -u PIP_EXTRA_INDEX_URL PIP_CONFIG_FILE=/dev/null \
		CUSTOM_COMPILE_COMMAND="make lock" $(BIN)/pip-compile --quiet --strip-extras --allow-unsafe \
		--generate-hashes --all-extras --build-deps-for=editable --no-emit-options \
		--no-emit-index-url --no-emit-find-links --no-emit-trusted-host \
		--output-file=requirements.lock $(ARGS) pyproject.toml

# strict: a package that PyPI tells nothing of would pass for a sound one otherwise
audit: setup ## look for known weaknesses in the locked packages; asks PyPI, and fails where it cannot
	@$(BIN)/pip-audit --strict --requirement requirements.lock --require-hashes --disable-pip --progress-spinner off

values: setup ## write the table of values in docs/kubernetes.md anew from the charts
	@$(BIN)/python scripts/values_table.py

metrics: setup ## write the table of metrics in docs/observability.md anew
	@$(BIN)/python scripts/metrics_table.py

pictures: setup ## make the pictures of the dashboard in docs anew; needs Chromium
	@$(BIN)/python scripts/screenshots.py

fuzz: setup ## try EXAMPLES=20000 hostile inputs of each kind, like those that are kept in tests/fuzz/seeds
	@FUZZ_EXAMPLES=$(or $(EXAMPLES),20000) $(BIN)/python -m pytest -q --timeout 0 tests/fuzz

chaos: setup ## inject faults into a running application (HOURS=0.5; ARGS="--seed 7" replays a run)
	@$(BIN)/python -m tests.chaos --hours $(or $(HOURS),0.5) $(ARGS)

clean: ## remove .venv and whatever the tools left
	rm -rf .venv .wallaroo .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache \
		dist build
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
