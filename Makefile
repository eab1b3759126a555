# Every target brings what it needs: a virtual environment in .venv, Node and a browser where the machine has none.
# A second call finds everything in its place and starts at once.

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.NOTPARALLEL:
.PHONY: help lab demo test matrix bench lint clean environment browser

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

EXTENSION := jupyter_dtf/labextension/package.json
SOURCES := $(shell find src style schema -type f 2>/dev/null) package.json tsconfig.json

help: ## Say what there is to make
	@sed -n 's/^\([a-z]*\):.*## /\1 /p' Makefile | while read -r name text; do printf '  make %-8s %s\n' "$$name" "$$text"; done

lab: environment ## JupyterLab with the example notebook open and the panel at its side
	@$(BIN)/python tools/lab.py $(VENV)/lab $(LAB_ARGS)

demo: environment ## Train the example's model on two workers, in this terminal
	@$(BIN)/jupyter-dtf demo

test: environment browser ## Python, TypeScript and browser tests (TESTS="python typescript browser")
	@BROWSER_PATH="$$(cat $(DONE)/browser)" $(BIN)/python tools/test.py $(TESTS)

matrix: environment ## Every part of Keras under every strategy against one process; writes docs/exactness.md (15 minutes)
	@$(BIN)/python -m tests.python.matrix $(MATRIX_ARGS)

bench: environment ## Measure, side by side with the alternatives
	@$(BIN)/python -m bench $(BENCH_ARGS)

lint: environment $(DONE)/lint ## Formatters, linters, type checkers and the direction of imports
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	npm run --silent lint:check </dev/null

clean: ## Remove all that can be made again, the virtual environment included
	rm -rf $(VENV) node_modules lib build dist artifacts jupyter_dtf/labextension jupyter_dtf/_version.py *.tsbuildinfo
	rm -rf .mypy_cache .pytest_cache .ruff_cache .import_linter_cache
	find jupyter_dtf tests tools bench -name __pycache__ -prune -exec rm -rf {} + 2>/dev/null || true

environment: $(DONE)/python $(EXTENSION)

browser: $(DONE)/browser

$(DONE)/venv:
	@tools/venv.sh $(VENV)
	@mkdir -p $(DONE) && touch $@

$(DONE)/build-tools: $(DONE)/venv
	@echo "Installing the build tools"
	@$(BIN)/python -m pip install -qq "hatchling>=1.27" "hatch-jupyter-builder>=0.9.1" "hatch-nodejs-version>=0.3.2" \
		"jupyter-builder>=1.2,<2" editables
	@tools/node.sh $(BIN)
	@touch $@

$(DONE)/npm: $(DONE)/build-tools package-lock.json
	@echo "Installing the JavaScript packages into node_modules"
	@npm ci --loglevel=error --no-progress </dev/null
	@touch $@

$(EXTENSION): $(DONE)/npm $(SOURCES)
	@echo "Building the JupyterLab extension"
	@npm run --silent build:prod </dev/null
	@touch $@

$(DONE)/python: $(DONE)/build-tools pyproject.toml package.json | $(EXTENSION)
	@echo "Installing jupyter_dtf with TensorFlow and the test tools (about 1 GB, minutes the first time)"
	@tools/install.sh $(VENV) cpu,test
	@touch $@

$(DONE)/lint: $(DONE)/python
	@echo "Installing the linters"
	@tools/install.sh $(VENV) lint
	@touch $@

$(DONE)/browser: | $(DONE)/npm
	@tools/browser.sh $@
