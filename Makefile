# One Makefile for people and for CI. Every target creates the environment first if it is missing.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# Workers of the test suite, one more than the usual two cores, because tests of clusters and kills
# wait; each is limited to one BLAS and torch thread.
WORKERS ?= 3
STUDY ?= studies/quick.yaml

export PIP_DISABLE_PIP_VERSION_CHECK := 1
# Processes are started by the hundred: each would compile us anew if its shell forbade bytecode.
export PYTHONDONTWRITEBYTECODE :=
export OMP_NUM_THREADS ?= 1
export OPENBLAS_NUM_THREADS ?= 1
export MKL_NUM_THREADS ?= 1

.DEFAULT_GOAL := help
.PHONY: help setup quick test lint format validate benchmark docs derived report clean

help: ## Show this help
	@grep -hE '^[a-z]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

setup: $(VENV)/.complete ## Create the environment in .venv, and nothing else

# torch first and pinned: a looser request would pull gigabytes of accelerator libraries.
$(VENV)/.complete: pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	  || { echo "error: pacebench needs Python 3.11 or newer; set PYTHON=python3.x" >&2; exit 2; }
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --constraint constraints.txt torch==2.13.0
	$(BIN)/pip install --quiet --constraint constraints.txt --editable '.[dev,ray,slurm]'
	touch $@

quick: setup ## Run a small real study and write its report (about two minutes)
	$(BIN)/pacebench freeze studies/quick.yaml
	$(BIN)/pacebench run studies/quick.yaml
	$(BIN)/pacebench report studies/quick.yaml

test: setup ## Run the tests
	$(BIN)/pytest -n $(WORKERS) --dist worksteal -m "not validation" --durations 15

lint: setup ## Check style, types and the direction of imports
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	mkdir -p .lint/pacebench
	ln -sfn ../../curricula ../../envs ../../harness .lint/pacebench/
	ln -sfn ../../curricula/_registry .lint/pacebench/registry
	$(BIN)/mypy
	$(BIN)/lint-imports

format: setup ## Format the code and fix what can be fixed mechanically
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

validate: setup ## Run the full-size self-validation (long)
	PACEBENCH_HYPOTHESIS=thorough $(BIN)/pytest -n $(WORKERS) --dist worksteal -m "validation or not validation" --durations 30

# The PPO in JAX that ours is measured against is installed for that alone.
$(VENV)/.peer: $(VENV)/.complete
	$(BIN)/pip install --quiet --constraint constraints.txt --editable '.[peer]'
	touch $@

benchmark: $(VENV)/.peer ## Measure everything that is claimed about speed; writes docs/performance.md
	$(BIN)/python -m benchmarks

# The site's tools are installed when it is built, and by nothing else.
$(VENV)/.docs: $(VENV)/.complete
	$(BIN)/pip install --quiet --constraint constraints.txt --editable '.[docs]'
	touch $@

docs: $(VENV)/.docs ## Build the documentation site into build/docs; warnings are errors
	$(BIN)/python -m sphinx --quiet --fail-on-warning --keep-going -d build/doctrees -c docs/site . build/docs
	@echo "The site: build/docs/index.html"

derived: setup ## Regenerate what docs/ derives from the code: schema and pictures
	$(BIN)/pacebench schema --out docs/study.schema.json
	for setup in point-mass-1 point-mass-2 point-mass-2d lunar-lander ball-catching sparse-maze; do \
	  $(BIN)/pacebench render $$setup --sheet --out docs/images/$$setup.png || exit 1; \
	done

report: setup ## Write the report of a study: make report STUDY=studies/quick.yaml
	$(BIN)/pacebench report $(STUDY)

clean: ## Remove the environment and every cache (results stay)
	rm -rf $(VENV) build .lint *.egg-info .pytest_cache .hypothesis .mypy_cache .ruff_cache .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
