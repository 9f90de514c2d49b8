# Every target makes or updates .venv by itself; nothing else has to be installed first but Python 3.12 or later.
# ARGS goes to the command: make test ARGS="-k xid", make up ARGS="--kubeconfig ~/.kube/config".
.DEFAULT_GOAL := help
SHELL := /bin/bash
ARGS ?=
BIN := .venv/bin

.PHONY: help install up test bench soak lint format lock \
	check-format check-code check-templates check-imports check-migrations check-types check-requirements

help: ## show this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 22

install: ## make .venv with everything that development needs
	@.ci/environment dev

up: ## run the dashboard on a simulated cluster, or on yours: ARGS="--kubeconfig FILE"
	@.ci/environment runtime && exec $(BIN)/gpuhealth up $(ARGS)

test: install ## run the tests; those that need a service say so and are skipped without it
	@$(BIN)/pytest $(ARGS)

bench: install ## score the rules, and measure a large simulated cluster: collecting, recording, history, every page
	@$(BIN)/python -m tests.bench $(ARGS)

soak: install ## watch healthy weeks and a month of all sorts, and kill what watches; takes hours, ARGS=month takes one part
	@$(BIN)/python -m tests.soak $(ARGS)

lint: check-format check-code check-templates check-imports check-migrations check-types ## check everything but behaviour

format: install ## rewrite Python and templates in the project's style
	@$(BIN)/ruff check --fix-only --quiet && $(BIN)/ruff format && $(BIN)/djlint templates --reformat --quiet

lock: install ## write requirements/ anew from pyproject.toml; ARGS=--upgrade takes newer versions
	@.ci/requirements $(ARGS)

check-format: install
	@$(BIN)/ruff format --check

check-code: install
	@$(BIN)/ruff check

check-templates: install
	@$(BIN)/djlint templates --check --lint

check-imports: install
	@$(BIN)/lint-imports

check-migrations: install
	@DJANGO_SETTINGS_MODULE=tests.settings $(BIN)/python manage.py makemigrations --check --dry-run

check-types: install
	@$(BIN)/mypy

check-requirements: install
	@.ci/requirements --check
