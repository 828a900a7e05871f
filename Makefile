# `make` alone prints what there is. The first target that needs Python makes .venv; nothing has to be installed before.

VENV := .venv
PY := $(VENV)/bin/python
MANAGE := $(PY) manage.py
PIP := $(PY) -m pip --disable-pip-version-check install -qq
REQUIREMENTS := base cli local dev bench

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help demo up test check lint bench chaos fuzz lock clean

help: ## Print this list
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-8s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: $(VENV)/.run ## Run everything with sample tenants and jobs; SECONDS=30 stops, judges every firing and says so
	@$(MANAGE) demo $(if $(SECONDS),--seconds $(SECONDS))

up: $(VENV)/.run ## Run everything in this terminal: web, beat, workers, Flower, and Postgres and Redis if no URL is set
	@$(MANAGE) up

test: $(VENV)/.dev ## Run the tests against a Postgres and a Redis of their own; ARGS=… runs pytest with these alone
ifdef ARGS
	@$(PY) -m pytest $(ARGS)
else
	@$(PY) -m pytest -n 2 --dist loadfile -m "not bench and not cluster"
	@# Those with clusters of real processes have the machine to themselves.
	@$(PY) -m pytest -m cluster
endif

check: lint test ## Run what a change must pass: format, lint, types, layers, migrations, tests

lint: $(VENV)/.dev ## Run what `check` runs, but the tests
	@$(PY) -m ruff format --check .
	@$(PY) -m ruff check .
	@$(PY) -m mypy jobs tenants scheduler_project carillon chaos
	@$(PY) $(VENV)/bin/lint-imports
	@# No server runs here: Django then warns that it could not compare the migrations with a database.
	@$(PY) -W ignore::RuntimeWarning manage.py makemigrations --check --dry-run
	@$(MANAGE) check

bench: $(VENV)/.bench ## Measure beside peers in the same run; NAME=throughput picks one, JSON=1 prints one line a bench
	@$(PY) -m benchmarks $(NAME) $(if $(SCALE),--scale $(SCALE)) $(if $(JSON),--json)

chaos: $(VENV)/.dev ## Inject faults into a real cluster, judge it from outside; PROFILE=long, SEED=n, FAULT=k, PULL=1, CAPS_SECONDS=n
	@$(PY) -m chaos run --profile $(or $(PROFILE),short) $(if $(SEED),--seed $(SEED)) $(addprefix --fault ,$(FAULT)) $(if $(PULL),--pull)
	@$(if $(CAPS_SECONDS),SEED="$(SEED)" CAPS_SECONDS="$(CAPS_SECONDS)" $(PY) -m pytest tests/cluster -m cluster)

fuzz: $(VENV)/.dev ## Send the API whatever its description allows and forbids, with keys of two tenants; SECONDS=600
	@FUZZ_SECONDS=$(or $(SECONDS),600) $(PY) -m pytest tests/fuzz

lock: $(VENV)/.run ## Compile requirements/*.in into pinned *.txt (needs the network)
	@$(PIP) uv
	@cd requirements && for name in $(REQUIREMENTS); do \
		../$(PY) -m uv pip compile --quiet --python-version 3.11 --no-header --no-emit-index-url \
			--no-emit-find-links --annotation-style line $$name.in -o $$name.txt || exit; done

clean: ## Remove .venv, caches and reports; the data in .carillon stays
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache staticfiles bench-reports chaos-reports
	find . -name __pycache__ -not -path './.git/*' -prune -exec rm -rf {} +

# Each stamp is written last, so an installation that was interrupted starts again.
$(VENV)/.made:
	@python=$$(sh requirements/find-python.sh) && echo "Making $(VENV) with $$python" && "$$python" -m venv --clear $(VENV)
	@touch $@

$(VENV)/.run: requirements/base.txt requirements/cli.txt requirements/local.txt $(VENV)/.made
	@echo "Installing what Carillon needs (once; about a minute)" >&2
	@$(PIP) -r requirements/base.txt -r requirements/cli.txt -r requirements/local.txt
	@$(PIP) --no-deps --no-build-isolation -e .  # .venv/bin/carillon; setuptools came with local.txt
	@touch $@

$(VENV)/.bench: requirements/bench.txt $(VENV)/.run
	@echo "Installing what the benches compare with (once)" >&2
	@$(PIP) -r requirements/bench.txt
	@touch $@

$(VENV)/.dev: requirements/dev.txt $(VENV)/.run
	@echo "Installing what the tests and checks need (once)"
	@$(PIP) -r requirements/dev.txt
	@touch $@
