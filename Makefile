# Every target brings what it needs: a virtual environment in .venv, Node and a browser where the machine has none.
# A second call finds everything in its place and starts at once.

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help lab demo test test-all pictures matrix chaos bench lint docs clean environment browser machines

VENV ?= .venv
BIN := $(abspath $(VENV))/bin
DONE := $(VENV)/done
export PATH := $(BIN):$(PATH)
export PIP_DISABLE_PIP_VERSION_CHECK := 1

# What to add to the command lines of `make lab`, `make test`, `make matrix` and `make bench`.
LAB_ARGS ?=
TESTS ?= python typescript browser
BENCH_ARGS ?=
# A regular expression for the rows that `make matrix` is to train; all of them by default.
MATRIX_ARGS ?=

# How many rounds `make chaos` plays, of which order, and what else its command line is told (--only "kill host").
ROUNDS ?= 100
SEED ?= 7
CHAOS_ARGS ?=

# Wheels to take the built extension from, if it is of these very sources.
WHEEL ?= $(wildcard dist/*.whl)

EXTENSION := jupyter_dtf/labextension/package.json
SOURCES := $(shell find src style schema -type f 2>/dev/null) package.json package-lock.json tsconfig.json

# The parts of the package to install with it. What an earlier call has installed stays.
EXTRAS ?= cpu
ALL_EXTRAS := $(sort $(EXTRAS) $(shell cat $(DONE)/extras 2>/dev/null))
EMPTY :=
INSTALLED := with-$(subst $(EMPTY) $(EMPTY),-,$(ALL_EXTRAS))

# Targets are one after the other, what they need is not.
TOGETHER = $(MAKE) --no-print-directory $(if $(findstring jobserver,$(MAKEFLAGS)),,-j3)
ifeq ($(MAKELEVEL),0)
.NOTPARALLEL:
endif

help: ## Say what there is to make
	@sed -n 's/^\([a-z-]*\):.*## /\1 /p' Makefile | while read -r name text; do printf '  make %-8s %s\n' "$$name" "$$text"; done

lab: ## JupyterLab with a copy of the example notebook open and the panel at its side
	@$(TOGETHER) environment
	@$(BIN)/python tools/lab.py $(VENV)/lab $(LAB_ARGS)

demo: ## Train the example's model on two workers, in this terminal
	@$(TOGETHER) environment
	@$(BIN)/jupyter-dtf demo

test: ## Python, TypeScript and browser tests (TESTS="python typescript browser")
	@$(TOGETHER) environment browser machines EXTRAS="cpu test" NODE=yes
	@BROWSER_PATH="$$(cat $(DONE)/browser)" $(BIN)/python tools/test.py $(TESTS)

test-all: ## The same with every example, page and kind of cluster run from end to end (long)
	@$(TOGETHER) environment browser machines EXTRAS="cpu test" NODE=yes
	@BROWSER_PATH="$$(cat $(DONE)/browser)" $(BIN)/python tools/test.py --all $(TESTS)

pictures: ## Pictures of every view, light and dark, wide and narrow, in artifacts/pictures (the designer's: artifacts/screenshots)
	@$(TOGETHER) environment browser EXTRAS="cpu test" NODE=yes
	@BROWSER_PATH="$$(cat $(DONE)/browser)" npx playwright test -c tests/ui/pictures.config.ts

matrix: ## Every part of Keras under every strategy against one process; writes docs/exactness.md (long)
	@$(TOGETHER) environment EXTRAS="cpu test"
	@$(BIN)/python -m tests.python.matrix $(MATRIX_ARGS)

chaos: ## Kill, freeze and stop every kind of process under every strategy (ROUNDS=100 SEED=7)
	@$(TOGETHER) environment EXTRAS="cpu test"
	@$(BIN)/python -m tests.python.chaos --rounds $(ROUNDS) --seed $(SEED) $(CHAOS_ARGS)

bench: ## Measure, side by side with the alternatives
	@$(TOGETHER) environment EXTRAS="cpu test"
	@$(BIN)/python -m bench $(BENCH_ARGS)

lint: ## Formatters, linters, type checkers and the direction of imports
	@$(TOGETHER) environment EXTRAS="cpu lint test" NODE=yes
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	npm run --silent lint:check </dev/null

docs: ## The documentation as a site, in docs/_build/html; a warning is an error
	@$(TOGETHER) environment EXTRAS="cpu docs"
	@$(BIN)/python -m sphinx --fail-on-warning --keep-going --quiet -j auto -d docs/_build/doctrees docs docs/_build/html
	@echo "docs/_build/html/index.html"

clean: ## Remove all that can be made again, the virtual environment included
	rm -rf $(VENV) node_modules lib build dist artifacts docs/_build docs/generated jupyter_dtf/labextension jupyter_dtf/_version.py *.tsbuildinfo
	rm -rf .mypy_cache .pytest_cache .ruff_cache .import_linter_cache
	find jupyter_dtf tests tools bench -name __pycache__ -prune -exec rm -rf {} + 2>/dev/null || true

# From here on it is what the targets above need. Packages come while the extension is built.

environment: $(DONE)/$(INSTALLED) $(EXTENSION)

browser: $(DONE)/browser

machines: $(DONE)/machines

$(DONE)/venv:
	@tools/venv.sh $(VENV)
	@mkdir -p $(DONE) && touch $@

$(DONE)/build-tools: $(DONE)/venv
	@$(BIN)/python -m tools.install packages "hatchling>=1.27" "hatch-jupyter-builder>=0.9.1" "hatch-nodejs-version>=0.3.2" \
		"jupyter-builder>=1.2,<2" editables
	@touch $@

$(DONE)/npm: $(DONE)/build-tools package-lock.json
	@tools/node.sh $(BIN)
	@$(BIN)/python -m tools.step "Installing the JavaScript packages into node_modules" npm ci --loglevel=error --no-progress
	@touch $@

# A build of these very sources, or a wheel that holds one, needs no Node.
$(EXTENSION): $(DONE)/build-tools $(SOURCES) $(if $(NODE),$(DONE)/npm)
	@$(BIN)/python tools/extension.py find $(WHEEL) || { $(MAKE) --no-print-directory $(DONE)/npm && \
		$(BIN)/python -m tools.step "Building the JupyterLab extension" npm run --silent build:prod; }
	@touch $@

$(DONE)/packages-$(INSTALLED): $(DONE)/build-tools pyproject.toml
	@$(BIN)/python -m tools.install dependencies $(ALL_EXTRAS)
	@touch $@

$(DONE)/$(INSTALLED): $(DONE)/packages-$(INSTALLED) package.json | $(EXTENSION)
	@$(BIN)/python -m tools.install checkout $(ALL_EXTRAS)
	@echo $(ALL_EXTRAS) >$(DONE)/extras && touch $@

$(DONE)/browser: | $(DONE)/npm
	@tools/browser.sh $@

# After the browser: apt-get is one at a time.
$(DONE)/machines: | $(DONE)/browser
	@tools/machines.sh && touch $@
