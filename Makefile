# Every command sets up .venv by itself (.ci/setup); the first time takes a few minutes.

SHELL := bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help

VENV := .venv/bin/python
STAMP := .venv/setup.stamp
FLOOR := .venv-floor/bin/python
FLOOR_STAMP := .venv-floor/setup.stamp
SOURCES := $(wildcard widetable cdc/widetable_cdc ml/widetable_feast lookup/widetable_lookup meta/widetable_meta spark/widetable_spark spark/pyspark_widetable tests benchmarks examples docs/site)
ARGS ?=
PYTHON ?= python3

# Set-up leaves it to the first process that imports a module to compile it: each would compile all of them otherwise.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help setup demo test quick floor python campaign bank model cluster interop interop-java object-stores hdfs cdc feast torch zones check format bench docs wheel clean

help: ## Show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: $(STAMP) ## Set up .venv (each command does so by itself)

$(STAMP): pyproject.toml .ci/setup .ci/interop.txt
	@.ci/setup

demo: $(STAMP) ## Spark streams and a PostgreSQL database fill tables of flights, checked cell by cell, and a training set of them; build/demo/report.html
	@$(VENV) -m examples.flights $(ARGS)

test: $(STAMP) ## All tests, on three processes (ARGS="-k name" for some)
	@$(VENV) -m pytest --numprocesses 3 --dist worksteal $(ARGS)

quick: $(STAMP) ## The tests for every edit: pure layers and what a change touches, two minutes on two cores
	@$(VENV) -m tests.support.programs.quick $(ARGS)

# Spark 4.0 leaves sockets to the garbage collector: no failure of ours.
floor: $(FLOOR_STAMP) ## Tests of the engine and of Spark with the oldest versions that are allowed (.ci/floor.txt)
	@WIDETABLE_FLOOR=1 NUMBA_CACHE_DIR=$(CURDIR)/.venv-floor/numba $(FLOOR) -m pytest --numprocesses 2 --dist worksteal \
	  -m "not slow and not interop" -W ignore::ResourceWarning -W ignore::pytest.PytestUnraisableExceptionWarning \
	  tests/widetable tests/lookup tests/spark tests/regressions tests/test_conformance.py $(ARGS)

$(FLOOR_STAMP): pyproject.toml .ci/floor.txt $(STAMP)
	@echo "floor  setting up .venv-floor with the versions of .ci/floor.txt (about 800 MB)"
	@test -x $(FLOOR) || $(VENV) -m venv .venv-floor
	@$(FLOOR) -m pip install --quiet --no-compile --constraint .ci/floor.txt --editable '.[dev]'
	@touch $@

python: $(STAMP) ## All tests with another Python, in .venv-python (make python PYTHON=python3.13); those of 3.10 to 3.13 pass
	@$(PYTHON) -m venv .venv-python
	@.venv-python/bin/python -m pip install --quiet --no-compile --editable '.[dev]'
	@.venv-python/bin/python -m pytest --numprocesses 3 --dist worksteal $(ARGS)

campaign: $(STAMP) ## A day of histories, faults, damage, kills and a soak, of which make test has a short version
	@WIDETABLE_CAMPAIGN=1 HYPOTHESIS_PROFILE=thorough WIDETABLE_LAYOUTS=5 WIDETABLE_KILLS=600 WIDETABLE_SPARK_KILLS=40 \
	  WIDETABLE_HISTORIES=500 WIDETABLE_HISTORY_STEPS=40 WIDETABLE_LONG_VALUE=50000000 WIDETABLE_BIT_TABLES=500 \
	  WIDETABLE_SYSTEM_FAULTS=all WIDETABLE_DAMAGES=500 WIDETABLE_POINTS=0 WIDETABLE_HOSTILE_VALUES=1000 \
	  WIDETABLE_OVERLAPS=10000 WIDETABLE_READS=1000000 WIDETABLE_STARTS=20000 WIDETABLE_OPENS=1000 \
	  WIDETABLE_CDC_KILLS=4000 WIDETABLE_CUTS=1000 WIDETABLE_CDC_HISTORIES=300 WIDETABLE_CDC_HISTORY_STEPS=60 WIDETABLE_WIDE_WRITERS=500 WIDETABLE_WIDE_KEYS=20000 WIDETABLE_PAIRS=all WIDETABLE_PAIR_ROUNDS=4 \
	  WIDETABLE_APPEND_HISTORIES=500 WIDETABLE_APPEND_KILL_STRIDE=1 \
	  $(VENV) -m pytest --timeout 0 -o faulthandler_timeout=0 tests/histories tests/cdc/histories tests/cdc/faults tests/failing_system tests/damaged_files \
	  tests/metamorphic tests/pairs tests/spark/test_pairs_of_spark.py tests/kill tests/append \
	  tests/widetable/operations/history/test_expiry_races.py \
	  tests/widetable/operations/barriers/test_read_histories.py tests/spark/startup/test_source_order.py tests/meta/test_failover.py \
	  tests/widetable/test_hostile_arguments.py tests/widetable/derive/lookups/test_join_of_many.py \
	  tests/widetable/operations/queries/test_lookup_of_long_texts.py \
	  tests/widetable/test_filled_table.py $(ARGS)
	@$(VENV) -m benchmarks.soak

bank: $(STAMP) ## Ten million transfers through seven jobs of Spark; money is all there in every session over their tables
	@WIDETABLE_TRANSFERS=10000000 WIDETABLE_LONG_RUN=1 $(VENV) -m pytest --timeout 0 -o faulthandler_timeout=0 tests/spark/jobs/test_bank.py $(ARGS)

model: $(STAMP) ## The model of timestamp barriers, all interleavings in all configurations: 3 minutes, 1.3 GB
	@WIDETABLE_CAMPAIGN=1 WIDETABLE_MODEL=all $(VENV) -m pytest --timeout 0 -o faulthandler_timeout=0 \
	  tests/model_checking $(ARGS)

cluster: $(STAMP) ## Ten writers on a Spark cluster over an S3 store, whose workers and drivers are killed again and again
	@WIDETABLE_CLUSTER_WRITERS=10 WIDETABLE_CLUSTER_BATCHES=40 WIDETABLE_CLUSTER_ROWS=1000 WIDETABLE_CLUSTER_KILLS=6 \
	  $(VENV) -m pytest --timeout 0 -o faulthandler_timeout=0 tests/cluster $(ARGS)

interop: $(STAMP) ## 10,000 random tables that pypaimon's native engine and widetable write and read, both ways
	@WIDETABLE_INTEROP_TABLES=10000 WIDETABLE_INTEROP_APPEND_TABLES=200 $(VENV) -m pytest --timeout 0 -o faulthandler_timeout=0 \
	  tests/interop/test_random_tables.py tests/interop/append/test_append_tables.py $(ARGS)

object-stores: $(STAMP) ## Tests of object stores, Azure Blob's and Google's too: emulators, which npm (370 MB) and Go fetch, run on loopback
	@test -d .venv/azurite/node_modules || npm install --prefix .venv/azurite --no-audit --no-fund --silent azurite@3.37.0
	@test -x .venv/gcs/fake-gcs-server || GOBIN=$(CURDIR)/.venv/gcs go install github.com/fsouza/fake-gcs-server@v1.56.1
	@WIDETABLE_AZURITE=$(CURDIR)/.venv/azurite WIDETABLE_FAKE_GCS=$(CURDIR)/.venv/gcs/fake-gcs-server $(VENV) -m pytest tests/object_stores $(ARGS)

hdfs: $(STAMP) ## Tests of tables on HDFS: a NameNode and a DataNode, whose jar Maven fetches (56 MB), run on loopback; needs a JDK
	@WIDETABLE_HDFS=1 $(VENV) -m pytest tests/hdfs $(ARGS)

cdc: $(STAMP) ## MariaDB through Debezium's engine, and Debezium's records in Kafka, all fetched by Maven (240 MB), with kills; needs a JDK
	@test -d .venv/cdc/jpype || $(VENV) -m pip install --quiet --no-compile --target .venv/cdc jpype1 pymysql
	@WIDETABLE_CDC=1 PYTHONPATH=$(CURDIR)/.venv/cdc $(VENV) -m pytest --timeout 0 -o faulthandler_timeout=0 tests/cdc/mariadb tests/cdc/kafka $(ARGS)

torch: $(STAMP) ## Batches as tensors in DataLoaders: PyTorch and torchdata, which pip fetches (3 GB, with CUDA's libraries)
	@test -d .venv/torch/torchdata || { $(VENV) -m pip install --quiet --no-compile --target .venv/torch torch && \
	  $(VENV) -m pip install --quiet --no-compile --no-deps --target .venv/torch torchdata; }
	@WIDETABLE_TORCH=1 PYTHONPATH=$(CURDIR)/.venv/torch $(VENV) -m pytest --timeout 0 -o faulthandler_timeout=0 \
	  tests/widetable/derive/loading/test_torch_rows.py tests/examples/test_flights_prediction.py $(ARGS)

feast: $(STAMP) ## Feast over tables, from apply to online features, in .venv-feast (Feast 0.67, 200 MB)
	@test -x .venv-feast/bin/python || $(VENV) -m venv .venv-feast
	@.venv-feast/bin/python -m pip install --quiet --no-compile --editable '.[feast]' hypothesis 'moto[server]' pytest pytest-timeout
	@.venv-feast/bin/python -m pytest -p no:cacheprovider -W ignore tests/feast $(ARGS)

zones: $(STAMP) ## The Spark tests in zones with daylight saving: one of the session, another one of the machine
	@TZ=Australia/Lord_Howe WIDETABLE_SPARK_ZONE=America/New_York $(VENV) -m pytest tests/spark $(ARGS)

interop-java: $(STAMP) ## The same with Paimon's Java, which Maven fetches: 1,200 tables, compacted by both, and their changes; needs a JDK
	@WIDETABLE_INTEROP_JAVA=1 $(VENV) -m pytest --timeout 0 -o faulthandler_timeout=0 \
	  tests/interop/test_java.py tests/interop/test_java_beside.py tests/interop/test_java_faults.py \
	  tests/interop/test_java_tags.py tests/interop/test_java_nested.py tests/interop/append/test_java_append.py \
	  tests/benchmarks/test_wide_columns_beside_java.py $(ARGS)

check: $(STAMP) ## Lint, format and types: ruff and mypy --strict
	@echo "check  1/3  ruff check" && $(VENV) -m ruff check --quiet $(SOURCES)
	@echo "check  2/3  ruff format --check" && $(VENV) -m ruff format --quiet --check $(SOURCES) || \
	  { $(VENV) -m ruff format --check $(SOURCES) | tail -n 20; echo "run: make format"; exit 1; }
	@echo "check  3/3  mypy --strict" && $(VENV) -m mypy --num-workers 2 $(SOURCES)

format: $(STAMP) ## Sort the imports and lay out the sources
	@$(VENV) -m ruff check --quiet --select I --fix $(SOURCES)
	@$(VENV) -m ruff format $(SOURCES)

bench: $(STAMP) ## Benchmarks: a table, and JSON beside it
	@$(VENV) -m benchmarks $(ARGS)

docs: $(STAMP) ## Generate docs/options.md, refusals.md, warnings.md and errors.md, and the site with the API reference: build/site/index.html
	@$(VENV) -m widetable.schema.options_doc docs/options.md
	@$(VENV) -m widetable.acceptance.refusals_doc docs/refusals.md
	@$(VENV) -m widetable.messages.warnings_doc docs/warnings.md
	@$(VENV) -m widetable.messages.errors_doc docs/errors.md
	@NO_MKDOCS_2_WARNING=1 $(VENV) -m mkdocs build --strict --quiet

wheel: $(STAMP) ## Build the wheel into dist/, and a copy named .zip, which Spark ships to its workers
	@$(VENV) -m build --wheel --no-isolation --outdir dist .
	@for wheel in dist/*.whl; do cp "$$wheel" "$${wheel%-py3-none-any.whl}.zip"; done; ls -l dist

clean: ## Remove what was built, but .venv and .venv-floor
	@rm -rf build dist .mypy_cache .pytest_cache .ruff_cache .hypothesis spark-warehouse
