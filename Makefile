# `make train` and `make test` do all set-up on a machine that has only Python and make.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
# Installed one after the other so that torch is resolved first, alone and pinned.
READY := $(VENV)/.ready

# The official ALFWorld engine has many dependencies of its own, so it gets an environment of its own.
ALFWORLD := .venv-alfworld
# So have the worlds of other packages.
ENVS := .venv-envs
# So has verl, and some of its packages want older releases than ours.
VERL := .venv-verl
# And TRL, beside which verl cannot be imported.
TRL := .venv-trl
# And the pages of docs/, which need no torch.
DOCS := .venv-docs
# What builds the package.
PACKAGE := .venv-package

.PHONY: help setup test test-pythons test-slow test-alfworld test-verl test-trl test-browser package test-package chromium lint types train docs clean

help:
	@echo "make train      train a small agent in the embedded household world"
	@echo "make test       set up, lint, check types, run the tests"
	@echo "make test-pythons  the core tests under the oldest and newest Python that the package claims"
	@echo "make test-slow  the slow tests and those that need a foreign engine or a browser"
	@echo "make test-alfworld  our household engine against the official ALFWorld engine, live"
	@echo "make test-envs  the worlds of other packages (TextWorldExpress, ScienceWorld, BabyAI, TextWorld, Gymnasium)"
	@echo "make test-verl  training through released verl on the CPU, and the hooks it must have"
	@echo "make test-trl   training through released TRL on the CPU, and the hooks it must have"
	@echo "make test-browser  the pages and the documentation in headless Chromium"
	@echo "make package    a wheel and an sdist, in dist/; make test-package installs and uses them"
	@echo "make docs       the documentation as web pages, in site/"

setup: $(READY)

$(READY): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt torch numpy
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[train,dev]'
	@touch $@

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(READY)
	$(BIN)/mypy

test: lint types
	$(BIN)/python -m pytest -n 2 -m "not slow and not alfworld and not envs and not verl and not trl and not browser and not gpu"

test-pythons:
	$(PYTHON) .ci/pythons.py

$(ALFWORLD)/.ready: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(ALFWORLD)
	$(ALFWORLD)/bin/python -m pip install --quiet --disable-pip-version-check -c constraints.txt \
		-e '.[alfworld]' pytest pytest-timeout
	@touch $@

test-alfworld: $(ALFWORLD)/.ready
	$(ALFWORLD)/bin/python -m pytest -m alfworld tests/envs/household/test_alfworld_live.py

$(ENVS)/.ready: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(ENVS)
	$(ENVS)/bin/python -m pip install --quiet --disable-pip-version-check -c constraints.txt \
		-e '.[envs]' pytest pytest-timeout
	@touch $@

test-envs: $(ENVS)/.ready
	$(ENVS)/bin/python -m pytest -m envs tests/envs/others

$(VERL)/.ready: pyproject.toml constraints-verl.txt
	$(PYTHON) -m venv $(VERL)
	$(VERL)/bin/python -m pip install --quiet --disable-pip-version-check -c constraints-verl.txt torch numpy
	$(VERL)/bin/python -m pip install --quiet --disable-pip-version-check -c constraints-verl.txt \
		-e '.[verl]' pytest pytest-timeout hypothesis
	@touch $@

test-verl: $(VERL)/.ready
	$(VERL)/bin/python -m pytest -m verl tests/verl tests/inspect/test_importers.py

$(TRL)/.ready: pyproject.toml constraints-trl.txt
	$(PYTHON) -m venv $(TRL)
	$(TRL)/bin/python -m pip install --quiet --disable-pip-version-check -c constraints-trl.txt torch numpy
	$(TRL)/bin/python -m pip install --quiet --disable-pip-version-check -c constraints-trl.txt \
		-e '.[trl]' pytest pytest-timeout
	@touch $@

test-trl: $(TRL)/.ready
	$(TRL)/bin/python -m pytest -m trl tests/trl

test-slow: $(READY) docs test-alfworld test-envs test-verl test-trl chromium
	HGPO_REQUIRE_CHROMIUM=1 $(BIN)/python -m pytest -m "(slow or browser) and not gpu"

# A wheel and an sdist, in dist/.
$(PACKAGE)/.ready:
	$(PYTHON) -m venv $(PACKAGE)
	$(PACKAGE)/bin/python -m pip install --quiet --disable-pip-version-check build
	@touch $@

package: $(PACKAGE)/.ready
	$(PACKAGE)/bin/python -m build

test-package: $(READY)
	$(BIN)/python -m pytest -m slow tests/test_package.py

test-browser: $(READY) docs chromium
	HGPO_REQUIRE_CHROMIUM=1 $(BIN)/python -m pytest -m "browser and not slow"

# The pages of `hgpo inspect` and `hgpo watch` are tested in a real browser.
chromium:
	@command -v chromedriver >/dev/null && command -v chromium >/dev/null \
	|| { [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null && apt-get update -qq \
	&& DEBIAN_FRONTEND=noninteractive apt-get install -y -qq chromium chromium-driver >/dev/null; } \
	|| { echo "Install Debian's packages chromium and chromium-driver (or run this as root)."; exit 1; }

train: $(READY)
	$(BIN)/hgpo train quickstart --run runs/quickstart --resume --max-minutes 11

$(DOCS)/.ready: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(DOCS)
	$(DOCS)/bin/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[docs]'
	@touch $@

# Warnings (a link or anchor that leads nowhere, a page outside the menu) are errors; not with --quiet, which does not
# count them. The variable silences a banner of the theme about another tool.
docs: $(DOCS)/.ready
	NO_MKDOCS_2_WARNING=1 $(DOCS)/bin/mkdocs build --strict

clean:
	rm -rf $(VENV) $(ALFWORLD) $(ENVS) $(VERL) $(TRL) $(PACKAGE) $(DOCS) .venv-uv .venv-3.* build dist site .mypy_cache .ruff_cache .hypothesis
