# `make demo` and `make test` are all a newcomer needs; each installs what it uses into .venv.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

.DEFAULT_GOAL := help
.PHONY: help demo test check format lock clean campaign-model campaign-cluster bench

help:  ## list the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):[^#]*## /\1: /' | column -t -s: -l2

$(STAMP): requirements-dev.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Holdfast needs Python 3.11 or newer; try make PYTHON=python3.12")'
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements-dev.lock
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	@touch $(STAMP)

demo: $(STAMP)  ## watch an order survive kill -9
	@$(BIN)/holdfast demo

test: $(STAMP)  ## every test that fits in about ten minutes
	$(BIN)/python -m pytest -n 2 $(ARGS)

.PHONY: interop
interop: $(STAMP)  ## the official SDKs, unchanged, against `holdfast serve` (fetches them; needs npm)
	@$(BIN)/python -m tests.interop.installation
	HOLDFAST_INTEROP=1 $(BIN)/python -m pytest tests/interop -n 2 --dist loadgroup --durations 5 $(ARGS)

COUNT ?= 1000000
BACKENDS ?= memory,sqlite
campaign-model: $(STAMP)  ## random operations to the oracle and every store, compared (COUNT, SEED, BACKENDS)
	$(BIN)/python -m tests.model.differential --count $(COUNT) $(if $(SEED),--seed $(SEED)) --backends $(BACKENDS)

campaign-cluster: $(STAMP)  ## many nodes on PostgreSQL, killed again and again (ARGS)
	HOLDFAST_HISTORY_ROUNDS=334 HOLDFAST_HISTORY_EACH=133 HOLDFAST_KILLS=100 HOLDFAST_SERVER_KILLS=40 HOLDFAST_WORKER_KILLS=60 \
		HOLDFAST_UPGRADE_ROUNDS=40 HOLDFAST_POOLED_OPERATIONS=20000 \
		$(BIN)/python -m pytest -n 2 tests/cluster --durations 5 $(ARGS)

check: $(STAMP)  ## format, lint and types
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/pyright --warnings
	$(BIN)/python -m pytest tests/test_layers.py tests/test_tidy.py

format: $(STAMP)  ## rewrite the code in the house style
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

lock:  ## refresh requirements-dev.lock (needs uv)
	uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-header --no-emit-index-url \
		--all-extras pyproject.toml requirements-dev.in -o requirements-dev.lock

bench: $(addprefix bench-,$(filter-out __init__ table load,$(basename $(notdir $(wildcard bench/*.py)))))  ## measure everything

bench-%: $(STAMP)  # one table: make bench-engine
	@$(BIN)/python -m bench.$* $(ARGS)

clean:  ## remove everything that make created
	rm -rf .venv .mypy_cache .pytest_cache .ruff_cache .hypothesis tests/interop/.cache tests/interop/ts/node_modules
