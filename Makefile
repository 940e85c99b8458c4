# `make` alone lists the targets. Every target that needs .venv creates or updates it first.
.DEFAULT_GOAL := help
.PHONY: help setup demo test test-slow test-cluster check docs lock audit values metrics commands pictures bench fuzz chaos release clean

BIN := .venv/bin

help: ## list the targets
	@sed -n 's/^\([a-z-]*\):[^#]*## /  make \1\t/p' $(firstword $(MAKEFILE_LIST)) | expand -t 20

setup: ## create or update .venv, including Java
	@sh scripts/setup

demo: setup ## run Market Spread on generated data, and check every output
	@$(BIN)/wallaroo demo market_spread

# in several processes, whose number and shares tests/processes.py sets
test: setup ## run the tests (ARGS="-k name" selects some, ARGS="-n 0" runs them one by one)
	@$(BIN)/python -m pytest -n auto --dist loadscope $(ARGS)

test-slow: setup ## run the tests that are too slow for each change
	@$(BIN)/python -m pytest -m slow $(ARGS)

test-cluster: setup ## run the tests on the cluster of kubectl's current context (docs/kubernetes.md)
	@$(BIN)/python -m pytest tests/cluster -m cluster $(ARGS)

check: setup ## check formatting, lint, types, import direction and documentation
	@failed=0; for check in "ruff format --check ." "ruff check ." mypy lint-imports; do \
		echo "$$check"; $(BIN)/$$check || failed=1; \
	done; $(MAKE) --no-print-directory docs || failed=1; exit $$failed # run all of them even if one fails: one run reports everything

docs: setup ## build the documentation in build/docs; warnings are errors
	@echo "mkdocs build"; told=$$(NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build 2>&1) || \
		{ echo "$$told"; exit 1; }

bench: setup ## run the benchmarks (ARGS passes options)
	@$(BIN)/python -m benchmarks $(ARGS)

# Created with the oldest Python, whose packages are a superset of those of newer ones, and without the
# machine's pip configuration, which would end up in the lock.
# `make lock ARGS=--upgrade` upgrades everything as far as pyproject.toml allows.
lock: setup ## regenerate requirements.lock from pyproject.toml
	@$(BIN)/python -c 'import sys; sys.exit(sys.version_info[:2] != (3, 11) and \
		"make lock: the lock requires Python 3.11: rm -r .venv, then PYTHON=python3.11 make lock")'
	@env -u PIP_FIND_LINKS -u PIP_INDEX_URL -u PIP_EXTRA_INDEX_URL PIP_CONFIG_FILE=/dev/null \
		CUSTOM_COMPILE_COMMAND="make lock" $(BIN)/pip-compile --quiet --strip-extras --allow-unsafe \
		--generate-hashes --all-extras --build-deps-for=editable --no-emit-options \
		--no-emit-index-url --no-emit-find-links --no-emit-trusted-host \
		--output-file=requirements.lock $(ARGS) pyproject.toml

# --strict: otherwise a package that PyPI has no data on would pass as safe
audit: setup ## check the locked packages for known vulnerabilities; requires access to PyPI
	@$(BIN)/pip-audit --strict --requirement requirements.lock --require-hashes --disable-pip --progress-spinner off

values: setup ## regenerate the table of values in docs/reference/values.md from the charts
	@$(BIN)/python scripts/values_table.py

metrics: setup ## regenerate the table of metrics in docs/reference/metrics.md
	@$(BIN)/python scripts/metrics_table.py

commands: setup ## regenerate the reference of commands in docs/reference/commands.md
	@$(BIN)/python scripts/commands_page.py

pictures: setup ## regenerate the screenshot of the dashboard in docs; requires Chromium
	@$(BIN)/python scripts/screenshots.py

fuzz: setup ## try EXAMPLES=20000 hostile inputs of each kind; findings are kept in tests/fuzz/seeds
	@FUZZ_EXAMPLES=$(or $(EXAMPLES),20000) $(BIN)/python -m pytest -q --timeout 0 tests/fuzz

chaos: setup ## inject faults into a running application (HOURS=0.5; ARGS="--seed 7" replays a run)
	@$(BIN)/python -m tests.chaos --hours $(or $(HOURS),0.5) $(ARGS)

release: setup ## make wheel, sdist, charts, images, bills of materials, site and checksums in dist
	@$(BIN)/python scripts/release.py $(ARGS)

clean: ## remove .venv and all generated files
	rm -rf .venv .wallaroo apps/*/.wallaroo .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache \
		dist build
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
