# The few commands of a contributor. Targets use .venv when `make setup` has made one, and otherwise
# the tools on the PATH. `.ci/run` is the whole set, in an environment of its own.

BIN := $(if $(wildcard .venv/bin/python),.venv/bin/,)
PYTHON ?= $(if $(BIN),$(BIN)python,python3)
SOURCES := src tests tools $(wildcard benchmarks)

EXTRAS := dev,docs,notebook,parquet,solvers,kube,local,train,safetensors,s3,huggingface,lightning

export PYTHONPATH := $(CURDIR)/src:$(CURDIR)

.DEFAULT_GOAL := help

.PHONY: help setup lock programs check lint types test test-all bench cover site

help: ## print these targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-9s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: ## make .venv and install Weft into it, editable, with what the checks need
	python3 -m venv .venv
	.venv/bin/python -m pip install --quiet --constraint constraints.txt --editable '.[$(EXTRAS)]'

lock: ## renew constraints.txt from the newest releases that pyproject.toml allows
	rm -rf build/lock && python3 -m venv build/lock
	build/lock/bin/python -m pip install --quiet hatchling editables '.[$(EXTRAS)]'
	head -n 2 constraints.txt >build/lock/header
	build/lock/bin/python -m pip freeze --exclude weft >build/lock/versions
	cat build/lock/header build/lock/versions >constraints.txt

programs: ## build a real Kubernetes for the tests, once (about 15 minutes; needs Go, and etcd installed)
	tools/testcluster/build

lint: ## style, format, order of the rooms, spelling
	$(PYTHON) -m ruff check .
	$(PYTHON) -m ruff format --check .
	$(BIN)lint-imports --no-logo
	$(BIN)codespell

types: ## mypy, strict
	$(PYTHON) -m mypy $(SOURCES)

check: lint types ## the static checks

test: ## within a minute, the computing tests nearest to the edit, nearest first
	$(PYTHON) -m tools.nearest_tests

test-all: ## every test
	$(PYTHON) -m pytest -q -n auto --dist loadgroup --ignore=tests/testcluster
	$(PYTHON) -m pytest -q tests/testcluster

bench: ## the benchmarks in their short form
	$(PYTHON) -m benchmarks conformance --short
	$(PYTHON) -m benchmarks replay --short
	$(PYTHON) -m benchmarks round --short
	$(PYTHON) -m benchmarks forecast --short
	$(PYTHON) -m benchmarks failures --short

cover: ## every test, with the lines and branches that none of them reached
	$(PYTHON) -m pytest -q -n auto --dist loadgroup --cov=weft --cov-report=term

site: ## build the documentation into build/site, strictly
	$(PYTHON) -m tools.site build/site
