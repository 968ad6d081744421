# make help explains. Everything is built and installed in .venv and build, nothing elsewhere.
VENV := .venv
BIN := $(VENV)/bin
NATIVE := $(wildcard native/*.* native/*/*.*)
TEST_FLAGS ?=

.PHONY: help demo test test-native lint format fuzz clean
.DELETE_ON_ERROR:

help: ## this list
	@grep -hE '^[a-z-]+:.*##' Makefile | sed -E 's/:[^#]*## /\t/' | expand -t 14

demo: $(VENV)/installed ## crawl a generated site and see its near-duplicates dropped
	@$(BIN)/dedup demo $(DEMO_FLAGS)

test: $(VENV)/test-tools test-native ## every test, C and Python
	$(BIN)/python -m pytest $(TEST_FLAGS)

test-native: $(VENV)/installed ## the C tests and a few seconds of fuzzing, under sanitizers
	@$(BIN)/cmake -S native -B build/native -G Ninja -DNDD_TESTS=ON \
		-DNDD_SANITIZE=address,undefined -DNDD_CORPUS="$(CURDIR)/build/corpus" -DCMAKE_MAKE_PROGRAM="$(CURDIR)/$(BIN)/ninja" >/dev/null
	@$(BIN)/cmake --build build/native
	@$(BIN)/python tests/make_corpus.py build/corpus
	@$(BIN)/ctest --test-dir build/native -j 2 --output-on-failure

lint: $(VENV)/lint-tools ## style, types, and which floor may import which
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: $(VENV)/lint-tools ## put the Python sources into the house style
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

fuzz: $(VENV)/test-tools ## fuzz everything that reads bytes, FUZZ_SECONDS (3600) in all, FUZZ_JOBS (2) at once
	@$(BIN)/python native/fuzz/run.py

clean: ## remove what was built and installed here
	rm -rf $(VENV) build dist

# The virtual environment, with the build tools; .ci/setup finds or installs what that needs.
$(VENV)/made: .ci/setup
	@sh .ci/setup $(VENV)
	@$(BIN)/python -m pip install -q --upgrade 'pip>=25.1'
	@touch $@

# The package in place, its native core built; again whenever the core or its build changes.
$(VENV)/installed: $(VENV)/made pyproject.toml $(NATIVE)
	@$(BIN)/python -m pip install -q --group build
	@$(BIN)/python -m pip install -q --no-build-isolation --editable '.[all]'
	@touch $@

$(VENV)/test-tools: $(VENV)/installed
	@$(BIN)/python -m pip install -q --group test --group lint
	@touch $@

$(VENV)/lint-tools: $(VENV)/test-tools
	@touch $@
