# Two commands: `make demo` shows the main job, `make test` proves it.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed-
OUT ?= demo-out

.PHONY: demo test quick lint bench clean

demo: $(STAMP)demo
	$(BIN)/treering demo --out $(OUT)

# Two processes share what needs no Cassandra; nodes are for one process at a time.
test: $(STAMP)dev lint
	$(BIN)/python -m pytest -m "not cassandra" -n 2 --dist worksteal
	$(BIN)/python -m pytest -m cassandra

# The suite without real Cassandra, for a quick look while working.
quick: $(STAMP)dev
	$(BIN)/python -m pytest -m "not cassandra and not slow" -x -q

lint: $(STAMP)dev
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

bench: $(STAMP)bench
	$(BIN)/python -m benchmarks

clean:
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis

$(BIN)/python:
	$(PYTHON) -c 'import sys; sys.exit("treering needs Python 3.11 or newer; set PYTHON=python3.x" if sys.version_info < (3, 11) else 0)'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade "pip>=25.1"

$(STAMP)demo: $(BIN)/python pyproject.toml
	$(BIN)/python -m pip install --quiet --editable '.[demo]'
	@touch $@

$(STAMP)dev: $(BIN)/python pyproject.toml
	$(BIN)/python -m pip install --quiet --editable '.[all]'
	$(BIN)/python -m pip install --quiet --group dev
	@touch $@

$(STAMP)bench: $(STAMP)dev
	$(BIN)/python -m pip install --quiet --group bench
	@touch $@
