# make test, make lint, make demo …: each does all its own set-up, and is quick when nothing has changed.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DELETE_ON_ERROR:
.DEFAULT_GOAL := help

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed

PLUGIN_PROJECTS := $(wildcard plugins/*/pyproject.toml)
PLUGIN_PACKAGES := $(patsubst %/,%,$(dir $(wildcard plugins/*/*/__init__.py)))
LOSS_FOLDERS := $(wildcard lossdsl/packs examples plugins)

export PIP_DISABLE_PIP_VERSION_CHECK := 1
export PIP_ROOT_USER_ACTION := ignore
# An environment that says so would have each of the processes that tests start read all of lossdsl anew.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help setup test test-all lint format demo bench tables gallery clean

help: ## what there is
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## (.*)/make \1\t\2/' | expand -t 18

setup: $(INSTALLED) ## .venv with lossdsl, its plugins and the pinned development requirements

$(INSTALLED): requirements-dev.txt pyproject.toml $(PLUGIN_PROJECTS)
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
		|| { echo "lossdsl needs Python 3.11 or later; $(PYTHON) is $$($(PYTHON) --version). Say make PYTHON=… to choose one."; exit 1; }
	@test -x $(BIN)/python || { echo "==> Making $(VENV)"; $(PYTHON) -m venv $(VENV); }
	@echo "==> Installing the development requirements (torch is the large one; a minute or two the first time)"
	@$(BIN)/python -m pip install --quiet --requirement requirements-dev.txt
	@echo "==> Installing lossdsl and $(words $(PLUGIN_PROJECTS)) plugins, editable"
	@$(BIN)/python -m pip install --quiet --no-build-isolation --editable . $(addprefix --editable ./,$(patsubst %/,%,$(dir $(PLUGIN_PROJECTS))))
	@touch $@

test: $(INSTALLED) ## the suite: about 5 minutes on two cores, 7 from empty caches
	@echo "==> Running the tests, two at a time"
	@OMP_NUM_THREADS=$${OMP_NUM_THREADS:-1} $(BIN)/python -m pytest -n 2 $(ARGS)
	@echo "==> Running the Triton kernels in its interpreter"
	@OMP_NUM_THREADS=$${OMP_NUM_THREADS:-1} TRITON_INTERPRET=1 $(BIN)/python -m pytest -n 2 tests/triton

test-all: $(INSTALLED) ## the suite with full products where `make test` draws a sample
	@echo "==> Running the tests with full products, two at a time (long)"
	@OMP_NUM_THREADS=$${OMP_NUM_THREADS:-1} LOSSDSL_FULL_TESTS=1 $(BIN)/python -m pytest -n 2 $(ARGS)
	@OMP_NUM_THREADS=$${OMP_NUM_THREADS:-1} LOSSDSL_FULL_TESTS=1 TRITON_INTERPRET=1 $(BIN)/python -m pytest -n 2 tests/triton

lint: $(INSTALLED) ## ruff, formatting, mypy, the import contract, and the format of .loss files
	@echo "==> ruff"
	@$(BIN)/python -m ruff check .
	@$(BIN)/python -m ruff format --check .
	@echo "==> mypy"
	@$(BIN)/python -m mypy
	@for package in $(PLUGIN_PACKAGES); do $(BIN)/python -m mypy "$$package"; done
	@echo "==> the import contract"
	@$(BIN)/lint-imports --no-logo
	@$(BIN)/lint-imports --no-logo plugins/lossdsl-opencl/pyproject.toml
	@echo "==> lossdsl fmt --check"
	@find $(LOSS_FOLDERS) -name '*.loss' -not -path '*/.*' -print0 | xargs -0r $(BIN)/lossdsl fmt --check

format: $(INSTALLED) ## format the Python and the .loss files in place
	@$(BIN)/python -m ruff format .
	@$(BIN)/python -m ruff check --fix-only .
	@find $(LOSS_FOLDERS) -name '*.loss' -not -path '*/.*' -print0 | xargs -0r $(BIN)/lossdsl fmt

demo: $(INSTALLED) ## train on digits with 40 % wrong labels: cross-entropy against losses from .loss files
	@$(BIN)/python examples/demo.py

bench: $(INSTALLED) ## the row-wise losses on the CPU against torch, at fixed shapes: half an hour on two cores; ARGS=… for less
	@$(BIN)/python benchmarks/rows.py $(ARGS)

tables: $(INSTALLED) ## write which backend runs which loss, and how, into benchmarks/backends.md: a few minutes
	@$(BIN)/python benchmarks/backends.py

gallery: $(INSTALLED) ## a site of static pages in out/gallery, one a loss: a few minutes; ARGS="focal dice_binary" for some
	@$(BIN)/python -m lossdsl.gallery out/gallery $(ARGS)

clean: ## remove the environment and what the tools have cached
	@rm -rf $(VENV) .mypy_cache .pytest_cache .ruff_cache .import_linter_cache .hypothesis
