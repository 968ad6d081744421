# make help explains. Everything is built and installed in .venv and build, nothing elsewhere.
VENV := .venv
BIN := $(VENV)/bin
NATIVE := $(wildcard native/*.* native/*/*.* native/src/*/*.*)
TEST_FLAGS ?=

# Processes that run tests: tests of crawls and services wait more than they compute. They share one Kafka.
# Files begin in the order of tests/conftest.py, which knows those that take longest.
# 0: in this process, one test after the other.
TEST_PROCESSES ?= 3
# Stores are flushed to disk often: the tests' files are in memory where 8 GiB are free there.
TEST_FILES := $(shell df -Pk /dev/shm 2>/dev/null | awk 'NR == 2 && $$4 > 8388608 { print "TMPDIR=/dev/shm" }')
AT_ONCE = -n $(TEST_PROCESSES) --dist loadfile --no-loadscope-reorder
PYTEST = $(TEST_FILES) $(BIN)/python -m pytest $(AT_ONCE)

# An index that does not answer is asked again.
export PIP_RETRIES ?= 8
# Modules are compiled when they are first imported, and kept: most of what is installed never is, and tests start
# many processes. (0: pip takes the value for that of --compile, as it is with an option whose name denies.)
export PIP_NO_COMPILE := 0
export PYTHONDONTWRITEBYTECODE :=

# Where the browser's tests leave pictures of the dashboard and of every report.
export DEDUP_SCREENSHOTS ?= $(CURDIR)/build/screenshots

# The least supported version of everything, in an environment of its own, and what is run there: what meets a
# dependency. Crawls, their items, the filter and the queue (Scrapy, w3lib), a service and its client (hiredis, uvloop,
# starlette), stores (lmdb, msgspec, numpy), the command line (click). Rules and decisions are ours, and not run again.
MINIMUM := .venv-minimum
MINIMUM_TESTS := $(addprefix tests/scrapy/test_scrapy_,$(addsuffix .py,crawl keys new_or_known queue service surface)) \
	tests/store/test_store.py tests/cli/test_cli.py tests/cli/test_cli_ends.py

# What another Python can read otherwise: the core through cffi (golden vectors, buffers, threads), its files,
# recipes, stores, and one crawl. That the core is right was shown by the Python here: comparisons with the oracle,
# and searches with a scan, are not run again.
WHEEL_TESTS := tests/core/test_fingerprint.py tests/core/test_table.py tests/core/test_table_saved.py tests/model/test_recipes.py \
	tests/store/test_store.py tests/scrapy/test_scrapy_crawl.py
WHEEL_OTHERS := oracle or exact or hostile or alike or decide or limit

# Of `make check`: each promise (tests/house/test_promises.py) has a test here that needs what the demo needs.
CHECK_TESTS := tests/scrapy/test_scrapy_crawl.py tests/scrapy/test_scrapy_recrawl.py tests/core/test_table.py \
	tests/core/test_fingerprint.py tests/store/test_store_faults.py tests/store/test_power_cut.py

.PHONY: help demo paper check test test-long test-elsewhere preflight test-minimum test-spark test-poisoned test-native test-native-long compiled test-at-size test-endian \
	test-wheel test-pythons dist lint house format fuzz soak soak-service soak-commands soak-load bench bench-crawls bench-peers figures pictures docs clean kafka
.DELETE_ON_ERROR:

help: ## this list
	@grep -hE '^[a-z-]+:.*##' Makefile | sed -E 's/:[^#]*## /\t/' | expand -t 18

demo: $(VENV)/demo ## crawl a generated site and see its near-duplicates dropped
	@$(BIN)/dedup demo $(DEMO_FLAGS)

check: $(VENV)/demo ## some tests of each promise, in three minutes; needs what the demo needs, pytest and hypothesis
	@$(BIN)/python -m pip install -q --group test-core
	$(TEST_FILES) $(BIN)/python -m pytest -q -n 2 --dist loadfile -m "not long" -k test_promise_ $(CHECK_TESTS) $(TEST_FLAGS)

test: preflight ## every promise, once
	@$(MAKE) --no-print-directory -j 2 $(VENV)/test-tools test-native compiled kafka
	$(PYTEST) -m "not long" --ignore tests/spark $(TEST_FLAGS)

test-long: preflight test-native-long test-at-size test-poisoned test-elsewhere ## simulations, kill loops, sizes, pages in a browser, brokers in failure, Spark, other versions

# Half of it is installing.
test-elsewhere: $(VENV)/long-tools
	@$(MAKE) --no-print-directory --output-sync -j 2 test-spark test-minimum test-pythons

# Long tests; of those marked sized other cases and larger sizes than `make test` has, and all of Hypothesis' examples.
test-at-size: $(VENV)/long-tools
	DEDUP_TEST_SIZE=full $(PYTEST) -m "long or sized or hypothesis" --ignore tests/spark $(TEST_FLAGS)

test-poisoned: $(VENV)/long-tools ## the core, stores and the paper's tables under an allocator that overwrites what is freed
	PYTHONMALLOC=malloc MALLOC_PERTURB_=171 $(PYTEST) -m "not long" tests/core tests/store tests/model
	PYTHONMALLOC=malloc MALLOC_PERTURB_=171 $(PYTEST) tests/paper

preflight: ## what the tests need and this machine lacks, and how to install it
	@if [ -f .ci/preflight ]; then sh .ci/preflight; fi

test-minimum: $(MINIMUM)/installed ## the tests that meet dependencies, with the least versions of them
	$(TEST_FILES) $(MINIMUM)/bin/python -m pytest -q -p no:cacheprovider $(AT_ONCE) -m "not long" $(MINIMUM_TESTS)

test-spark: $(VENV)/test-tools $(VENV)/spark ## dedup.spark in local mode, in a process of its own; needs Java 17
	$(BIN)/python -m pytest -q -p no:cacheprovider tests/spark/test_spark.py

# Ninja takes what make says of its job server for an offer, and fails: make lends it to other makes alone.
ALONE := env -u MAKEFLAGS -u MFLAGS

# -O1: compiled in half the time of -O3, and the tests run as fast under sanitizers.
NATIVE_TESTS = $(BIN)/cmake -S native -B build/native -G Ninja -DNDD_TESTS=ON -DNDD_SANITIZE=address,undefined \
	-DCMAKE_BUILD_TYPE=None -DCMAKE_C_FLAGS="-O1 -g1" -DNDD_CORPUS="$(CURDIR)/build/corpus" \
	-DCMAKE_MAKE_PROGRAM="$(CURDIR)/$(BIN)/ninja"

test-native: $(VENV)/build-tools ## the C tests under sanitizers
	@$(NATIVE_TESTS) -DNDD_QUICK=ON >/dev/null
	@$(ALONE) $(BIN)/cmake --build build/native -- --quiet
	@$(BIN)/ctest --test-dir build/native -j 2 --output-on-failure >build/native/said || { cat build/native/said; exit 1; }
	@echo "C tests passed"

test-native-long: $(VENV)/test-tools ## the same at size, the thread rule, and a few seconds of fuzzing
	@$(NATIVE_TESTS) -DNDD_QUICK=OFF >/dev/null
	@$(ALONE) $(BIN)/cmake --build build/native -- --quiet
	@$(BIN)/python tests/support make_corpus build/corpus
	@FUZZ_SEED=$${FUZZ_SEED:-1} $(BIN)/ctest --test-dir build/native -j 2 --output-on-failure

# Python compiles what it imports first: once here, beside the C compiler, and not in each process of a run.
compiled: $(VENV)/test-tools
	@[ -d tests/__pycache__ ] || $(BIN)/python -m pytest --collect-only -q -m "not long" --ignore tests/spark >/dev/null

# Kafka's jars, fetched by Maven into the user's cache folder, once. Without them its tests are skipped.
kafka: $(VENV)/test-tools
	@if [ -z "$$KAFKA_BOOTSTRAP_SERVERS" ] && command -v mvn >/dev/null; then \
		$(BIN)/python tests/support/broker.py 2>&1 | tail -n 1; fi

test-endian: $(VENV)/installed ## the C tests and golden vectors on big-endian and 32-bit processors, emulated
	@nice sh native/tools/test_processors.sh "$(CURDIR)/build" "$(CURDIR)/$(BIN)/python"

dist: $(VENV)/long-tools ## an sdist, and a wheel made from it, in dist/
	@rm -rf dist
	$(BIN)/python -m build --outdir dist
	$(BIN)/abi3audit --strict dist/*.whl
	$(BIN)/python -m twine check --strict dist/*

test-wheel: $(VENV)/long-tools ## the tests with the package installed from its sdist, elsewhere
	$(BIN)/python tests/support installed -m "not long" $(TEST_FLAGS)

test-pythons: $(VENV)/long-tools ## that wheel on every Python >= 3.11 found here: what another Python can read otherwise
	$(ALONE) $(BIN)/python tests/support installed --every-python $(AT_ONCE) -m "not long" -k "not ($(WHEEL_OTHERS))" $(WHEEL_TESTS)

lint: $(VENV)/long-tools ## style, types, and which floor may import which
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

house: $(VENV)/installed ## the package in numbers beside the last release's: lines, modules, a page's calls; circles
	@$(BIN)/python tests/support/house.py

format: $(VENV)/long-tools ## put the Python sources into the house style
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

fuzz: $(VENV)/test-tools ## fuzz everything that reads bytes, FUZZ_SECONDS (3600) in all, FUZZ_JOBS (2) at once
	@$(BIN)/python native/fuzz/run.py

bench: $(VENV)/installed ## this machine's figures: pages, a crawl, tables, store, service, events, batch, scan
	@for part in pages crawl tables store service events batch pairs scan; do \
		echo; echo "tests/bench $$part"; $(BIN)/python tests/bench $$part $(BENCH_FLAGS) || exit 1; done

bench-crawls: $(VENV)/installed ## real whole sites, crawled with and without the add-on, and beside other ways (BENCH_FLAGS=--quick)
	@$(BIN)/python -m pip install -q --group bench
	@$(BIN)/python tests/bench crawls $(BENCH_FLAGS)

bench-peers: $(VENV)/installed ## pages and tables beside other programs; those it can are installed for it
	@$(BIN)/python -m pip install -q --group bench
	@for part in "pages --peers" "tables --peers"; do \
		echo; echo "tests/bench $$part"; $(BIN)/python tests/bench $$part $(BENCH_FLAGS) || exit 1; done

paper: $(VENV)/installed ## the designs, compression and figures of the paper beside its own values (PAPER_FLAGS="--set FOLDER")
	@$(BIN)/python tests/paper $(PAPER_FLAGS)

figures: $(VENV)/long-tools ## measure the figures of the pages, or those in ONLY (DEDUP_EVAL: labelled sets and sites)
	@$(BIN)/python tests/support figures $(ONLY) $(FIGURES_FLAGS)

pictures: $(VENV)/long-tools ## the pictures of dashboard and report in the documentation, from a run of the demo; needs Chromium
	@$(BIN)/python tests/support pictures

docs: $(VENV)/long-tools ## the documentation as HTML, with commands and Python names, in build/docs
	@$(BIN)/python -m sphinx -q -W --keep-going -b html docs build/docs
	@echo build/docs/index.html

# Each says at its end, at Ctrl-C and at a SIGTERM how many kills it did and what was lost. SOAK_ROUNDS, SOAK_MINUTES.
soak: $(VENV)/test-tools ## kill crawls, services with their spiders and Kafka; damage stores
	@nice $(BIN)/python tests/support soak

soak-service: $(VENV)/test-tools ## kill workers, table service and Kafka under load
	@nice $(BIN)/python tests/support soak_service

soak-commands: $(VENV)/test-tools ## kill a service under the commands of eight clients, DROP among them
	@nice $(BIN)/python tests/support soak_commands

soak-load: $(VENV)/test-tools ## 64 clients for three minutes: full disk, Kafka killed and stopped, backup; latency of PING
	@$(BIN)/python tests/support soak_load

clean: ## remove what was built and installed here
	rm -rf $(VENV) $(MINIMUM) build dist

# The virtual environment, with the build tools; .ci/setup finds or installs what that needs.
# (An sdist comes without .ci.)
$(VENV)/made: $(wildcard .ci/setup)
	@echo "making $(VENV), where everything is installed ..."
	@if [ -f .ci/setup ]; then sh .ci/setup $(VENV); else python3 -m venv $(VENV); fi
	@$(BIN)/python -m pip install -q --upgrade 'pip>=25.1'
	@touch $@

# $(call install,EXTRA): the package in place, its native core built.
define install
	@echo "compiling the native core, and installing crawl-dedup[$(1)] ..."
	@$(ALONE) $(BIN)/python -m pip install -q --no-build-isolation --editable '.[$(1)]'
endef

$(VENV)/build-tools: $(VENV)/made
	@$(BIN)/python -m pip install -q --group build
	@touch $@

# Everything; again whenever the core or its build changes.
$(VENV)/installed: $(VENV)/build-tools pyproject.toml $(NATIVE)
	$(call install,all)
	@touch $(VENV)/demo $@

# What the demo needs, and no more. (After `installed` there is nothing left to do.)
# cmake and ninja are installed where the machine has none (pip would do so, too, for each build anew).
$(VENV)/demo: $(VENV)/made pyproject.toml $(NATIVE)
	@echo "installing what the build needs ..."
	@$(BIN)/python -m pip install -q $$($(BIN)/python -c "import tomllib; print(*tomllib.load(open('pyproject.toml', 'rb'))['build-system']['requires'])")
	@$(BIN)/python -m pip install -q $$($(BIN)/python -c 'from scikit_build_core.build import get_requires_for_build_wheel as r; print(*r())')
	$(call install,scrapy)
	@touch $@

$(VENV)/test-tools: $(VENV)/installed
	@$(BIN)/python -m pip install -q --group test
	@touch $@

# As much again: what long tests, lint, the documentation and packages need.
$(VENV)/long-tools: $(VENV)/test-tools
	@$(BIN)/python -m pip install -q --group test-long
	@touch $@

# What dedup.spark needs beyond it: the package itself is there.
$(VENV)/spark: $(VENV)/installed
	@$(BIN)/python -m pip install -q 'crawl-dedup[spark]'
	@touch $@

# A wheel of the native core as it is, the sources of the package as they stand.
$(MINIMUM)/installed: $(VENV)/installed tests/minimum-versions.txt
	@sh .ci/setup $(MINIMUM)
	@$(MINIMUM)/bin/python -m pip install -q --upgrade 'pip>=25.1'
	@$(MINIMUM)/bin/python -m pip install -q --group build --group test-core
	@$(ALONE) $(MINIMUM)/bin/python -m pip install -q --no-build-isolation \
		--constraint tests/minimum-versions.txt --config-settings=build-dir=build/minimum \
		--editable '.[all,eval]'
	@touch $@
