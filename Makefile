# Two commands set everything up on a fresh machine: make demo, make test.
PYTHON ?= python3
BIN := .venv/bin

.PHONY: demo test test-slow lint format bench reproduce compare docs clean

# One environment, installed again only when pyproject.toml changes. The stamp names what was installed.
.venv/.created:
	$(PYTHON) -m venv .venv
	@touch $@

.venv/.installed-%: .venv/.created pyproject.toml
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable ".[$*]"
	@touch $@

demo: .venv/.installed-plot  ## draw, fit, compare, picture
	$(BIN)/tribit demo --picture demo.png

test: .venv/.installed-test  ## the tests (no network, no GPU, no data to download)
	$(BIN)/python -m pytest

test-slow: .venv/.installed-test  ## what takes long: peak memory at 40,000 x 20,000
	$(BIN)/python -m pytest -m slow

lint: .venv/.installed-test  ## style and types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: .venv/.installed-test
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: .venv/.installed-test  ## peer / ours / ratio, measured in one run (DATA=folder with ml-100k)
	TRIBIT_DATA="$(DATA)" $(BIN)/python -m benchmarks

reproduce: .venv/.installed-plot  ## every figure and table of the paper, and the pages of the manual (DATA=folder with ml-100k)
	$(BIN)/tribit reproduce all --data "$(DATA)" --out reproduction/paper
	$(BIN)/tribit reproduce all --data "$(DATA)" --out reproduction/tuned --protocol tuned
	cp reproduction/paper/*.png reproduction/paper/fig?.md reproduction/paper/table1.md docs/reproduced
	cp reproduction/tuned/*.png reproduction/tuned/fig?.md reproduction/tuned/table1.md docs/reproduced/tuned

compare: .venv/.installed-plot  ## every system on the same data, and the table of the manual (DATA=folder with ml-100k, senate, coat)
	$(BIN)/tribit compare --data "$(DATA)"
	cp comparison/comparison.md docs/compared

docs: .venv/.installed-docs  ## the manual, warnings are errors
	$(BIN)/python -m sphinx -W --keep-going -b html docs docs/_build/html

clean:
	rm -rf .venv docs/_build docs/api build dist .pytest_cache .mypy_cache .ruff_cache demo.png
