# The few commands of a contributor. Targets use .venv when `make setup` has made one, and otherwise
# the tools on the PATH. `.ci/run` is the whole set, in an environment of its own.

BIN := $(if $(wildcard .venv/bin/python),.venv/bin/,)
PYTHON ?= $(if $(BIN),$(BIN)python,python3)
SOURCES := src tests tools $(wildcard benchmarks)

# Rooms whose tests compute and touch no outside world; what does all the same is left out there.
FAST := $(addprefix tests/,model brain policy perf failure sim lab trace spec view cli)

export PYTHONPATH := $(CURDIR)/src:$(CURDIR)

.DEFAULT_GOAL := help
.PHONY: help setup programs lint types test test-all bench cover site

help: ## print these targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-9s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: ## make .venv and install Weft into it, editable, with what the checks need
	python3 -m venv .venv
	.venv/bin/python -m pip install --quiet --editable '.[dev,docs,notebook,parquet,solvers,kube,local,train,safetensors,s3,huggingface,lightning]'

programs: ## build a real Kubernetes for the tests, once (about 15 minutes; needs Go, and etcd installed)
	tools/testcluster/build

lint: ## style, format, order of the rooms, spelling
	$(PYTHON) -m ruff check .
	$(PYTHON) -m ruff format --check .
	$(BIN)lint-imports --no-logo
	$(BIN)codespell

types: ## mypy, strict
	$(PYTHON) -m mypy $(SOURCES)

# A test that is ended because it goes outside leaves sockets open, which is no fault of its own.
test: ## the fast tests: what only computes, in two minutes
	WEFT_FAST=1 $(PYTHON) -m pytest -q -n auto --dist loadgroup \
	    -W ignore::pytest.PytestUnraisableExceptionWarning \
	    -m 'not slow and not alone and not traces' $(FAST)

test-all: ## every test
	$(PYTHON) -m pytest -q -n auto --dist loadgroup

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
