# `make` alone prints the targets. The first target that needs Python makes .venv; install nothing before.

VENV := .venv
PY := $(VENV)/bin/python
MANAGE := $(PY) manage.py
PIP := $(PY) -m pip --disable-pip-version-check install -qq
# Only the locked files are installed.
LOCKED := $(PIP) --require-hashes
REQUIREMENTS := base cli local archive otel dev bench audit
UV := uv==0.13.9
OVER_RABBITMQ := caps counts crash_points crowd draining kill kill_without_election levers poison presence wake_ups
SMOKE := core store handlers engine explain pull
# Hundreds of processes start in a run of the tests; each would compile the project, and the tests' assertions, itself.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help demo up test smoke check lint bench chaos rabbitmq drill upgrade fuzz lock wheel sbom advisories clean

help: ## Print this list
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-10s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: $(VENV)/.run ## Run everything with sample tenants and jobs; SECONDS=30 stops, judges every firing and says so
	@$(MANAGE) demo $(if $(SECONDS),--seconds $(SECONDS))

up: $(VENV)/.run ## Run everything in this terminal: web, beat, workers, Flower, and Postgres and Redis if no URL is set; ARGS="--port 0"
	@$(MANAGE) up $(ARGS)

test: $(VENV)/.dev ## Run the tests against a Postgres and a Redis of their own; ARGS=… runs pytest with these alone
ifdef ARGS
	@$(PY) -m pytest $(ARGS)
else
	@# Three workers mostly wait for clusters of real processes, two compute (tests/abreast.py).
	@$(PY) -m pytest -n 5 --dist loadfile
endif

smoke: $(VENV)/.dev ## Run the quick tests of the engine's layers, in a minute and a half
	@$(PY) -m pytest -n 2 --dist loadfile -q -m "not slow" $(addprefix tests/,$(SMOKE))

check: lint test ## Run what a change must pass: format, lint, types, layers, migrations, tests

lint: $(VENV)/.dev ## Run what `check` runs, but the tests
	@$(PY) -m ruff format --check .
	@$(PY) -m ruff check .
	@$(PY) -m mypy jobs tenants scheduler_project carillon chaos stage
	@$(PY) $(VENV)/bin/lint-imports
	@# No server runs here: Django then warns that it could not compare the migrations with a database.
	@$(PY) -W ignore::RuntimeWarning manage.py makemigrations --check --dry-run
	@$(MANAGE) check

bench: $(VENV)/.bench ## Measure beside peers in the same run; NAME=throughput picks one, JSON=1 prints one line a bench
	@$(PY) -m benchmarks $(NAME) $(if $(SCALE),--scale $(SCALE)) $(if $(JSON),--json)

chaos: $(VENV)/.dev ## Inject faults into a real cluster, judge it from outside; PROFILE=long, SEED=n, FAULT=k, BROKER=rabbitmq, PULL=1, CAPS_SECONDS=n
	@$(PY) -m chaos run --profile $(or $(PROFILE),short) $(if $(SEED),--seed $(SEED)) $(addprefix --fault ,$(FAULT)) $(if $(BROKER),--broker $(BROKER)) $(if $(PULL),--pull)
	@$(if $(CAPS_SECONDS),SEED="$(SEED)" CAPS_SECONDS="$(CAPS_SECONDS)" $(PY) -m pytest tests/cluster -m cluster)

rabbitmq: $(VENV)/.dev ## Run the cluster tests over Debian's RabbitMQ with no Redis, and its kills; QUEUES=quorum, KILLS=5
	@KILLS=$(or $(KILLS),5) $(PY) -m pytest -s tests/cluster/test_rabbitmq.py
	@STAGE_BROKER=$(or $(QUEUES),classic) $(PY) -m pytest $(addprefix tests/cluster/test_,$(addsuffix .py,$(OVER_RABBITMQ)))

drill: $(VENV)/.dev ## Try each playbook on its fault, with Prometheus and its rules; NAME=flood picks one
	@$(PY) -m chaos drill $(NAME)

upgrade: $(VENV)/.dev ## Replace an earlier release under load, process by process, and go back; FROM=commit, SECONDS=n beside each
	@UPGRADE_FROM="$(FROM)" UPGRADE_SECONDS="$(SECONDS)" $(PY) -m pytest -s tests/cluster/test_upgrade.py

fuzz: $(VENV)/.dev ## Send the API whatever its description allows and forbids, and hostile schemas; SECONDS=600, SCHEMAS=10000
	@FUZZ_SECONDS=$(or $(SECONDS),600) SCHEMAS=$(or $(SCHEMAS),10000) $(PY) -m pytest tests/fuzz tests/attacks/test_schemas.py

lock: $(VENV)/.run ## Compile requirements/*.in into pinned *.txt with hashes (needs the network); UPGRADE=1 takes new releases
	@$(PIP) $(UV)
	@cd requirements && for name in $(REQUIREMENTS); do \
		../$(PY) -m uv pip compile --quiet --generate-hashes $(if $(UPGRADE),--upgrade) --python-version 3.11 --no-header --no-emit-index-url \
			--no-emit-find-links --annotation-style line $$name.in -o $$name.txt || exit; done

wheel: $(VENV)/.run ## Build the command line as a wheel in dist/; install it in an empty environment and ask its version
	@rm -rf build dist && $(PY) -m pip --disable-pip-version-check wheel -qq --no-deps --no-build-isolation -w dist .
	@empty=$$(mktemp -d) && trap 'rm -rf "$$empty"' EXIT && $(PY) -m venv "$$empty" \
		&& "$$empty/bin/python" -m pip --disable-pip-version-check install -qq --require-hashes -r requirements/cli.txt \
		&& "$$empty/bin/python" -m pip --disable-pip-version-check install -qq --no-deps --no-index dist/*.whl \
		&& cd "$$empty" && echo "carillon $$(bin/carillon --version)"

sbom: $(VENV)/.audit ## Write sbom.json: what the image installs, by CycloneDX; NAME=local lists another of requirements/
	@$(VENV)/audit/bin/cyclonedx-py requirements requirements/$(or $(NAME),base).txt \
		--of JSON --sv 1.6 --output-reproducible -o sbom.json && echo "sbom.json"

advisories: $(VENV)/.audit ## Ask whether advisories are known of what is locked (needs the network; exit code 2 without)
	@$(VENV)/audit/bin/python requirements/advisories.py

clean: ## Remove .venv, caches and reports; the data in .carillon stays
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache staticfiles bench-reports chaos-reports dist build sbom.json
	find . -name __pycache__ -not -path './.git/*' -prune -exec rm -rf {} +

# Each stamp is written last, so an installation that was interrupted starts again.
$(VENV)/.made:
	@python=$$(sh requirements/find-python.sh) && echo "Making $(VENV) with $$python" && "$$python" -m venv --clear $(VENV)
	@touch $@

$(VENV)/.run: requirements/base.txt requirements/cli.txt requirements/local.txt pyproject.toml $(VENV)/.made
	@echo "Installing what Carillon needs (once; about a minute)" >&2
	@$(LOCKED) -r requirements/base.txt -r requirements/cli.txt -r requirements/local.txt
	@$(PIP) --no-deps --no-build-isolation -e .  # .venv/bin/carillon; setuptools came with local.txt
	@touch $@

$(VENV)/.bench: requirements/bench.txt $(VENV)/.run
	@echo "Installing what the benches compare with (once)" >&2
	@$(LOCKED) -r requirements/bench.txt
	@touch $@

$(VENV)/.dev: requirements/dev.txt $(VENV)/.run
	@echo "Installing what the tests and checks need (once)"
	@$(LOCKED) -r requirements/dev.txt
	@touch $@

# An environment of its own: the versions of these tools need not agree with those of the packages that they check.
$(VENV)/.audit: requirements/audit.txt $(VENV)/.made
	@echo "Installing what lists and audits the dependencies (once)" >&2
	@$(PY) -m venv --clear $(VENV)/audit
	@$(VENV)/audit/bin/python -m pip --disable-pip-version-check install -qq --require-hashes -r requirements/audit.txt
	@touch $@
