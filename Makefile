# One command does what it needs, from a fresh clone: make demo, make test. Details: docs/install.md.

# The environment that is made and used, and the Python it is made from (empty: the first fitting one on the PATH).
VENV ?= .venv
BASE_PYTHON ?=
PYTHON = $(VENV)/bin/python
# Written last, so that an interrupted set-up is taken up again.
READY = $(VENV)/.ready

.PHONY: help setup demo test lint format clean

help:
	@echo 'make demo    set up, train on the sample images, print the mAP table'
	@echo 'make test    set up, run the tests, print the coverage'
	@echo 'make lint    set up, check style, format and types'
	@echo 'make format  set up, rewrite the files in the house format'
	@echo 'make setup   only make the environment in $(VENV)'
	@echo 'make clean   delete caches and built packages; the environment stays'

setup: $(READY)

$(READY): requirements.txt setup.py tools/setup_env.sh
	@bash tools/setup_env.sh '$(VENV)' '$(BASE_PYTHON)'
	@touch $@

demo: setup
	$(PYTHON) demo/run_demo.py

test: setup
	$(PYTHON) -m pytest --cov --cov-report=term

lint: setup
	$(PYTHON) -m ruff check .
	$(PYTHON) -m ruff format --check .
	$(PYTHON) -m mypy

format: setup
	$(PYTHON) -m ruff check --fix .
	$(PYTHON) -m ruff format .

clean:
	rm -rf build dist *.egg-info .coverage htmlcov .mypy_cache .pytest_cache .ruff_cache
	find rebnn_mm tests tools configs demo -name __pycache__ -type d -exec rm -rf {} +
