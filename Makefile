# The few commands there are. `make demo` and `make test` install what they need.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# Named in a .pth file as well: from this folder, the folder `kunport` would otherwise pass for a namespace package.
ROOTS := kunport codegen model_adapters runtime

help: ## Show this list
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*##/\t/' | expand -t 12

demo: $(VENV)/ready ## Port OLMo 2 and SmolLM2-135M, prove both, and generate a few words
	$(BIN)/python examples/demo.py

test: $(VENV)/ready ## Format, lint, types, import contracts, all tests, coverage
	PYTHON=$(BIN)/python tools/test.sh

check: $(VENV)/ready ## The fast part of `make test`: no engine
	PYTHON=$(BIN)/python tools/test.sh --fast

corpus: $(VENV)/ready ## Every architecture through the real engine, as a table (half an hour)
	$(BIN)/python -m kunport.corpus adapters

format: $(VENV)/ready ## Rewrite the code in the project's format
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

install: $(VENV)/ready ## Only install, into .venv

clean: ## Remove what the other commands made
	rm -rf $(VENV) build dist .coverage* .mypy_cache .ruff_cache .pytest_cache .hypothesis

$(VENV)/ready: requirements/lock.txt pyproject.toml
	tools/system_packages.sh
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info[:2] != (3, 11) and "kunport needs Python 3.11; name it with make PYTHON=python3.11")'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --no-compile --no-deps --disable-pip-version-check -r requirements/lock.txt
	$(BIN)/pip install --quiet --no-deps --disable-pip-version-check --no-build-isolation -e .
# Compiled on all cores, which pip would not do, and without what nothing imports. A few files are for other Pythons.
	$(BIN)/python -m compileall -q -j 0 -x '/(anthropic|tests?)/' $(VENV)/lib >/dev/null || true
	printf '%s\n' $(addprefix $(CURDIR)/,$(ROOTS)) > "$$($(BIN)/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/kunport-sources.pth"
	touch $@

.PHONY: help demo test check corpus format install clean
.DEFAULT_GOAL := help
