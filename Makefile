# Two commands set everything up on a fresh machine: make demo, make test.
PYTHON ?= python3
BIN := .venv/bin

.PHONY: demo test test-lowest mutants pins pins-record test-slow test-browser test-gpu torture lint format bench bench-accuracy bench-cluster bench-cold bench-estimates bench-gammas bench-gpu bench-huge bench-large bench-peers bench-search bench-scale bench-serve bench-tables bench-theory bench-time bench-unobserved pictures reproduce compare docs wheel clean

# One environment, installed again only when pyproject.toml changes. The stamp names what was installed.
.venv/.created:
	$(PYTHON) -m venv .venv
	@touch $@

.venv/.installed-%: .venv/.created pyproject.toml
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable ".[$*]"
	@touch $@

demo: .venv/.installed-plot  ## draw, fit, compare, picture, and a page for a browser
	$(BIN)/tribit demo --picture demo.png --report demo.html

# One process a core, each with one BLAS thread: two threads of each would wait for one another. Bytecode is kept also
# where the environment says otherwise: each of some hundred processes would compile the tests or the library again.
PYTEST := PYTHONDONTWRITEBYTECODE= OPENBLAS_NUM_THREADS=1 $(BIN)/python -m pytest -n logical --dist worksteal

test: .venv/.installed-test  ## the tests (no network, no GPU, no data to download)
	$(PYTEST)

pins: .venv/.installed-test  ## fixed cases against their recorded numbers (ARGS="--exact", or names of cases)
	$(BIN)/python -m tests.pins check $(ARGS)

pins-record: .venv/.installed-test  ## the numbers of the fixed cases, recorded anew (ARGS=names of cases)
	$(BIN)/python -m tests.pins record $(ARGS)

test-slow: .venv/.installed-test  ## what takes long: peak memory at 40,000 x 20,000, killed runs, two workers of a service
	$(BIN)/python -m pytest -m slow

test-browser: .venv/.installed-browser  ## reports, and the manual if it is built, in a real browser (Debian: apt-get install chromium chromium-driver)
	$(BIN)/python -m pytest -m browser tests/browser

test-gpu: .venv/.installed-test,gpu  ## the backends of a GPU, on one (skipped, with the reason, where there is none)
	$(BIN)/python -m pytest -m gpu tests/gpu

test-lowest:  ## tests of data, model and command line with the lowest supported version of every dependency
	$(PYTHON) -m venv .venv-lowest
	.venv-lowest/bin/python .ci/lowest > .venv-lowest/constraints.txt
	.venv-lowest/bin/python -m pip install --quiet --disable-pip-version-check --constraint .venv-lowest/constraints.txt --editable ".[test]"
	OPENBLAS_NUM_THREADS=1 .venv-lowest/bin/python -m pytest -n logical --dist worksteal tests/data tests/model tests/cli

# The draw, and the parts whose mutants are drawn.
MUTANTS ?= 20
PARTS ?= metrics model/calibration.py model/links.py model/risks.py ranking selection/folds.py selection/stacking.py \
  solvers/lbfgs.py solvers/loop.py uncertainty/label_sets.py uncertainty/list_intervals.py

mutants: .venv/.installed-test  ## small changes of the code that the tests of the same package must notice (MUTANTS=20, PARTS=folders or modules)
	bash -o pipefail -c '$(BIN)/python -m benchmarks.mutants --draw $(MUTANTS) $(PARTS) | tee docs/measured/mutants.part' \
	  && mv docs/measured/mutants.part docs/measured/mutants.md || { rm -f docs/measured/mutants.part; exit 1; }

torture: .venv/.installed-test  ## the fuzzers in full: model files, tables, random problems, threads, forks, kills (minutes)
	bash -o pipefail -c '$(PYTEST) tests/torture --torture --timeout 900 --durations 5 | tee docs/measured/torture.part' \
	  && grep -E "s call|passed" docs/measured/torture.part > docs/measured/torture.txt; rm docs/measured/torture.part; \
	  grep -q " passed" docs/measured/torture.txt

lint: .venv/.installed-test  ## style and types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache

format: .venv/.installed-test
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: .venv/.installed-test  ## peer / ours / ratio, measured in one run (DATA=folder with ml-100k)
	TRIBIT_DATA="$(DATA)" $(BIN)/python -m benchmarks

# Runs a benchmark, shows what it prints, and with DATA keeps it as a table of the manual: all of it, or the old one stays.
# Without the compiled kernels, as after a plain pip install tribit. The fourth argument is another environment.
measured = for name in $(if $(DATA),$(3)); do \
	  test -d "$(DATA)/$$name" || { echo "$(DATA) has no folder $$name." >&2; exit 1; }; done; \
	bash -o pipefail -c 'TRIBIT_COMPILED=0 TRIBIT_DATA="$(DATA)" $(or $(4),$(BIN))/python -m benchmarks.$(1) | tee docs/measured/$(2).part' \
	  && $(if $(DATA),mv docs/measured/$(2).part docs/measured/$(2).md,rm docs/measured/$(2).part) \
	  || { rm -f docs/measured/$(2).part; exit 1; }

bench-accuracy: .venv/.installed-test  ## what the defaults reach beside other software (DATA=folder with ml-100k, coat)
	@$(call measured,accuracy,accuracy,ml-100k coat)

bench-tables: .venv/.installed-test  ## log-loss of the defaults on six tables, and its range over seeds (DATA=folder with ml-100k, senate, ...)
	@$(call measured,tables,tables,ml-100k senate polis-vtaiwan bitcoin-alpha benchmark-scores)

bench-cold: .venv/.installed-test  ## new users and items, with and without features (DATA=folder with ml-100k)
	@$(call measured,cold,cold,ml-100k)

bench-time: .venv/.installed-test  ## half-lives of entries, on later entries of ratings and of opinions that change (DATA=folder with ml-100k)
	@$(call measured,half_life,half_life,ml-100k)

DRAWS ?= 200

bench-estimates:  ## means of partly seen tables beside prediction-powered inference, designs of asked cells, values of lists (DATA=folder with benchmark-scores, senate, polis-vtaiwan, coat; DRAWS=200)
	$(PYTHON) -m venv .venv-peers
	.venv-peers/bin/python -m pip install --quiet --disable-pip-version-check --editable .
	.venv-peers/bin/python -m pip install --quiet --disable-pip-version-check ppi-python || echo "ppi-python does not install here."
	@$(call measured,estimates --draws $(DRAWS),estimates,benchmark-scores senate polis-vtaiwan,.venv-peers/bin)
	@$(call measured,asking,asking,benchmark-scores coat,.venv-peers/bin)

bench-gpu: .venv/.installed-test,gpu  ## passes, fits, search and lists on a GPU, at the shape of MovieLens-20M
	bash -o pipefail -c '$(BIN)/python -m benchmarks.gpu | tee docs/measured/gpu.part' \
	  && mv docs/measured/gpu.part docs/measured/gpu.md || { rm -f docs/measured/gpu.part; exit 1; }

bench-scale: .venv/.installed-test  ## seconds and memory of each stage over the size of drawn tables, and how cost grows
	for page in scale growth; do \
	  bash -o pipefail -c "TRIBIT_COMPILED=0 $(BIN)/python -m benchmarks.$$page | tee docs/measured/$$page.part" \
	    && mv docs/measured/$$page.part docs/measured/$$page.md || { rm -f docs/measured/$$page.part; exit 1; }; done

bench-large: .venv/.installed-test  ## the shape of MovieLens-20M on the CPU: sweeps, search and fit (minutes on two cores)
	bash -o pipefail -c '$(BIN)/python -m benchmarks.large | tee docs/measured/large.part' \
	  && mv docs/measured/large.part docs/measured/large.md || { rm -f docs/measured/large.part; exit 1; }

bench-huge: .venv/.installed-test  ## 480,189 x 17,770 with a hundred million entries: search, fit and lists; FOLDER keeps the table (more than 16 GB, and more than half an hour on two cores)
	bash -o pipefail -c '$(BIN)/python -m benchmarks.huge $(FOLDER) | tee docs/measured/huge.part' \
	  && mv docs/measured/huge.part docs/measured/huge.md || { rm -f docs/measured/huge.part; exit 1; }

bench-cluster: .venv/.installed-test  ## costs of a partition and of tasks, and what they add up to on a cluster
	bash -o pipefail -c '$(BIN)/python -m benchmarks.cluster | tee docs/measured/cluster.part' \
	  && mv docs/measured/cluster.part docs/measured/cluster.md || { rm -f docs/measured/cluster.part; exit 1; }

bench-search: .venv/.installed-test  ## the search against 66 x 6 points, long on few cores (DATA=folder with ml-100k, senate, coat)
	@$(call measured,grid,search,ml-100k senate coat)

# myFM imports pkg_resources, which later versions of setuptools lack.
bench-peers:  ## time to quality beside other libraries, in an environment of its own; a peer that does not install is left out
	$(PYTHON) -m venv .venv-peers
	.venv-peers/bin/python -m pip install --quiet --disable-pip-version-check --editable ".[plot,fast]"
	for peer in "setuptools<81" implicit cmfrec myfm lightfm girth mirt py-irt; do \
	  .venv-peers/bin/python -m pip install --quiet --disable-pip-version-check "$$peer" || echo "$$peer does not install here."; done
	bash -o pipefail -c 'TRIBIT_DATA="$(DATA)" .venv-peers/bin/python -m benchmarks.peers | tee docs/measured/peers.part' \
	  && $(if $(DATA),mv docs/measured/peers.part docs/measured/peers.md,rm docs/measured/peers.part)
	bash -o pipefail -c '.venv-peers/bin/python -m benchmarks.sweeps | tee docs/measured/sweeps.part' \
	  && mv docs/measured/sweeps.part docs/measured/sweeps.md || { rm -f docs/measured/sweeps.part; exit 1; }

bench-serve: .venv/.installed-test  ## requests/s and latencies of tribit serve, bad clients among good ones, attacks (DATA=folder with ml-100k)
	@$(call measured,serve,serve,ml-100k)
	@$(call measured,serve_attacks,serve-attacks,ml-100k)

bench-theory: .venv/.installed-test  ## bounds of mixtures and every inequality behind them on 208 draws; the bounds of the literature
	bash -o pipefail -c '$(BIN)/python -m benchmarks.guarantees | tee docs/measured/guarantees.part' \
	  && mv docs/measured/guarantees.part docs/measured/guarantees.md || { rm -f docs/measured/guarantees.part; exit 1; }
	$(BIN)/python -m benchmarks.theory --out docs/_static

bench-gammas: .venv/.installed-test  ## suggested weights of the risks beside PN, a grid and the paper's best (DATA=folder with senate, coat)
	@$(call measured,gammas,gammas,senate coat)

bench-unobserved: .venv/.installed-test  ## what the mask is worth (DATA=folder with ml-100k, senate, coat)
	@$(call measured,unobserved,unobserved,ml-100k senate coat)

pictures: .venv/.installed-test  ## the pictures of the manual that need data (DATA=folder with ml-100k, senate, coat)
	TRIBIT_COMPILED=0 TRIBIT_DATA="$(DATA)" $(BIN)/python -m benchmarks.pictures

reproduce: .venv/.installed-plot  ## every figure and table of the paper, and the pages of the manual (DATA=folder with ml-100k)
	$(BIN)/tribit reproduce all --data "$(DATA)" --out reproduction/paper
	$(BIN)/tribit reproduce all --data "$(DATA)" --out reproduction/solved --protocol solved
	$(BIN)/tribit reproduce all --data "$(DATA)" --out reproduction/tuned --protocol tuned
	cp reproduction/paper/*.png reproduction/paper/fig*.md reproduction/paper/table1.md docs/reproduced
	cp reproduction/solved/*.png reproduction/solved/fig*.md reproduction/solved/table1.md docs/reproduced/solved
	cp reproduction/tuned/*.png reproduction/tuned/fig*.md reproduction/tuned/table1.md docs/reproduced/tuned
	$(BIN)/python -m benchmarks.verdicts

compare: .venv/.installed-plot  ## every system on the same data, and the table of the manual (DATA=folder with ml-100k, senate, coat)
	$(BIN)/tribit compare --data "$(DATA)"
	cp comparison/comparison.md docs/compared

docs: .venv/.installed-docs  ## the manual, warnings are errors
	$(BIN)/python -m sphinx -W --keep-going -b html docs docs/_build/html

wheel:  ## sdist and wheel, the same bytes twice, installed into clean environments with and without extras, and used there
	PYTHON="$(PYTHON)" .ci/wheel

clean:
	rm -rf .venv .venv-lowest .venv-peers docs/_build docs/api docs/auto_examples docs/sg_execution_times.rst build dist .pytest_cache .mypy_cache .ruff_cache demo.png demo.html
