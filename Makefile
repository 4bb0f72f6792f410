# One command does what it needs, from a fresh clone: make demo, make test. Details: docs/install.md.

# The environment that is made and used, and the Python it is made from (empty: the first fitting one on the PATH).
VENV ?= .venv
BASE_PYTHON ?=
PYTHON = $(VENV)/bin/python
# The documentation site needs none of it.
DOCS_VENV ?= .venv-docs
# Written last, so that an interrupted set-up is taken up again.
READY = $(VENV)/.ready

# One process for each processor, at most 8, because each takes 2 GB. A file's tests stay together and share its fixtures.
PYTEST = $(PYTHON) -m pytest --numprocesses logical --maxprocesses 8 --dist loadfile --durations 10

# Anything but nothing prints the coverage, too. To trace every line doubles the time, so it is CI that does.
COVERAGE ?= $(CI)
ifneq ($(COVERAGE),)
PYTEST += --cov --cov-report term
endif

# Compiled by the set-up, and again when a source changes.
RUNTIME = rebnn_mm/deploy/lib/librebnn_ort.so
RUNTIME_SOURCES = $(wildcard runtime/CMakeLists.txt runtime/include/* runtime/src/* runtime/ort/*.* setup.py)

.PHONY: help setup demo test test-all lint format training-cost docs docs-version clean

help:
	@echo 'make demo      set up, train on blood cells, pack, print AP, milliseconds and megabytes'
	@echo 'make test      set up, run the tests, print the slowest; COVERAGE=1 prints the coverage as well'
	@echo 'make test-all  the same with the slow ones: fuzzing, sanitizers, emulation, long trainings'
	@echo 'make lint      set up, check style, format and types'
	@echo 'make format    set up, rewrite the files in the house format'
	@echo 'make training-cost  measure operators, bytes and time of a training step, and the goals of a GPU where there is one'
	@echo 'make docs      write the documentation site to build/site, with an environment of its own in $(DOCS_VENV)'
	@echo 'make docs-version  commit the site of this version to the branch gh-pages'
	@echo 'make setup     only make the environment in $(VENV)'
	@echo 'make clean     delete caches and built packages; the environment stays'

setup: $(READY) $(RUNTIME)

$(READY): requirements.txt setup.py tools/setup_env.sh
	@bash tools/setup_env.sh '$(VENV)' '$(BASE_PYTHON)'
	@touch $@

$(RUNTIME): $(RUNTIME_SOURCES) | $(READY)
	$(PYTHON) setup.py --quiet build_runtime --editable-mode
	@if [ -e $@ ]; then touch $@; fi

demo: setup
	$(PYTHON) demo/run_demo.py

test: setup
	$(PYTEST) -m 'not slow'

test-all: setup
	$(PYTEST)

training-cost: setup
	$(PYTHON) -m lab.tools.count_operators
	$(PYTHON) -m lab.tools.benchmark_training configs/imagenet/resnet18_rebnn_imagenet.py --variants real rebnn sums recompute \
	    --batch-size 32 --image-size 224 --no-memory --rounds 3 --warmup 1 --batches 1 --threads 1
	-$(PYTHON) -m lab.tools.check_gpu

lint: setup
	$(PYTHON) -m ruff check .
	$(PYTHON) -m ruff format --check .
	$(PYTHON) -m mypy
	$(VENV)/bin/lint-imports

format: setup
	$(PYTHON) -m ruff check --fix .
	$(PYTHON) -m ruff format .

docs: $(DOCS_VENV)/.ready
	NO_MKDOCS_2_WARNING=1 $(DOCS_VENV)/bin/mkdocs build --strict

# mike commits the site to the branch gh-pages, next to those of other versions.
docs-version: $(DOCS_VENV)/.ready
	NO_MKDOCS_2_WARNING=1 PATH=$(abspath $(DOCS_VENV))/bin:$$PATH mike deploy --update-aliases \
	    $$(sed -n "s/^__version__ = '\(.*\)'/\1/p" rebnn_mm/version.py) latest

$(DOCS_VENV)/.ready: tools/docs/requirements.txt
	$(or $(BASE_PYTHON),python3) -m venv $(DOCS_VENV)
	$(DOCS_VENV)/bin/python -m pip install --quiet --disable-pip-version-check --requirement $<
	@touch $@

clean:
	rm -rf build dist *.egg-info .coverage .coverage.* htmlcov .mypy_cache .pytest_cache .ruff_cache .import_linter_cache
	find rebnn_mm tests tools configs demo lab runtime docs -name __pycache__ -type d -exec rm -rf {} +
