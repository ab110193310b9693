.DEFAULT_GOAL := help
SHELL := /bin/bash
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
unexport PYTHONDONTWRITEBYTECODE # each of many processes would compile what it imports
# uv is quicker; pip knows the indexes of its own configuration.
install = $(BIN)/uv pip install --quiet --python $(BIN)/python $(1) || $(BIN)/python -m pip install --quiet $(1)

help: ## list the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

$(STAMP): pyproject.toml extension/pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "Python 3.11 or newer is needed; $(PYTHON) is older. Set PYTHON=/path/to/python3.11"; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip uv
	$(call install,-e '.[dev]')
	$(call install,--no-deps -e ./extension) # the line above installs a copy of it
	@touch $@

install: $(STAMP) ## create .venv and install everything into it

lint: $(STAMP) ## ruff: rules and format
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

format: $(STAMP) ## let ruff fix and format
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

types: $(STAMP) ## mypy --strict on the three packages
	$(BIN)/mypy

# ROOM=capture: the folders and files of tests that have this name
ROOM_TESTS = $(if $(ROOM),$(or $(shell find tests -path tests/golden -prune -o \( -name '$(ROOM)' -type d -o -name 'test_$(ROOM).py' \) -print),$(error no tests of a room '$(ROOM)')))

test: $(STAMP) ## the whole test suite, with real clients over loopback; ROOM=capture for a part
	$(if $(ROOM),,@tests/system-packages)
	$(BIN)/python -m pytest -n 4 --dist loadfile --no-loadscope-reorder --durations=10 $(ROOM_TESTS) $(ARGS)

# The pure core: what reads, merges and scores without processes, servers, databases and packages of others.
CORE := tests/extension/*.py tests/extension/spans $(addprefix tests/evaluators/,matching metrics suite) \
	$(addprefix tests/proxy/,protocol capture traces)

quick: lint types ## under 30 s on two idle cores: lint, types, tests of the pure core
	$(BIN)/python -m pytest -q -n 2 --dist loadfile --no-loadscope-reorder --hypothesis-profile quick \
		-m 'not (slow or installs or browser or database or frameworks)' $(CORE) $(ARGS)
	@echo "Left out: all tests but those of $(CORE), and of these the slow ones; hypothesis tried 10 examples each."
	@echo "make test ROOM=store runs those of a room, make test all."

frameworks: $(STAMP) ## the pages of frameworks, each installed with its newest versions; ARGS="-k crewai" for one
	$(BIN)/python -m pytest -m frameworks --everything tests/e2e/peers $(ARGS)

references: $(STAMP) ## print the statements of the documents that this project implements, each with its tests
	PYTHONPATH=tests$${PYTHONPATH:+:$$PYTHONPATH} $(BIN)/python -m tools.references.table

validate: $(STAMP) ## compare evaluators with public verdicts, and write evaluators/docs/validation.md
	PYTHONPATH=tests$${PYTHONPATH:+:$$PYTHONPATH} $(BIN)/python -m tools.validation

bench: $(STAMP) ## traffic, stages, traces, runs or workers; ARGS=--help lists them
	PYTHONPATH=tests$${PYTHONPATH:+:$$PYTHONPATH} $(BIN)/python -m tools.bench $(ARGS)

simulate: $(STAMP) ## how often comparisons say "worse" by chance, and what they find: the figures of evaluators/docs/comparing.md; an hour
	PYTHONPATH=tests$${PYTHONPATH:+:$$PYTHONPATH} $(BIN)/python -m tools.bench.gate $(ARGS)

mutation: $(STAMP) ## plant small faults in modules, and count those that tests find; ARGS="MODULE... --tests PATH..."
	PYTHONPATH=tests$${PYTHONPATH:+:$$PYTHONPATH} $(BIN)/python -m tools.mutation $(ARGS)

fuzz: $(STAMP) ## many clients against a hostile agent, the proxy between them; 3 minutes, ARGS="--minutes 30"
	PYTHONPATH=tests$${PYTHONPATH:+:$$PYTHONPATH} $(BIN)/python -m tools.fuzz $(ARGS)

faults: $(STAMP) ## plant each known fault, and run the test or the rounds that find it; hours, ARGS=NAME for one
	PYTHONPATH=tests$${PYTHONPATH:+:$$PYTHONPATH} $(BIN)/python -m tools.faults $(ARGS)

soak: $(STAMP) ## as turns, but for so long that growth of memory and descriptors shows; half an hour
	PYTHONPATH=tests$${PYTHONPATH:+:$$PYTHONPATH} $(BIN)/python -m tools.soak.turns --turns 12000 $(ARGS)

turns: $(STAMP) ## random turns with an oracle: every stored turn against what was executed; ARGS="--turns 1000 --seed 7"
	PYTHONPATH=tests$${PYTHONPATH:+:$$PYTHONPATH} $(BIN)/python -m tools.soak.turns $(ARGS)

trees: $(STAMP) ## 500 conversations of agents that ask each other, with an oracle: who asked whom; ARGS="--proxies 3"
	PYTHONPATH=tests$${PYTHONPATH:+:$$PYTHONPATH} $(BIN)/python -m tools.soak.trees $(ARGS)

conformance: $(STAMP) ## a2a-tck, directly and through the proxy; ARGS=CHECKOUT, a working copy of it
	PYTHONPATH=tests$${PYTHONPATH:+:$$PYTHONPATH} $(BIN)/python -m tools.conformance $(ARGS)

nightly: ## what is too long for each change: all tests, frameworks, fuzz, known faults, and random turns with proxies that are killed
	$(MAKE) test ARGS='--everything --hypothesis-profile thorough'
	$(MAKE) frameworks
	$(MAKE) fuzz ARGS="--minutes 20"
	for proxies in 1 2 3; do $(MAKE) turns ARGS="--turns 1000 --kill --proxies $$proxies" || exit 1; done
	$(MAKE) trees soak faults

$(BIN)/a2a-eval-proxy:
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet .

demo: $(BIN)/a2a-eval-proxy ## the whole story in one process; installs what a user installs
	$(BIN)/a2a-eval-proxy demo $(ARGS)

docs: $(STAMP) ## build the site of the documentation in artifacts/site
	PYTHONPATH=tests$${PYTHONPATH:+:$$PYTHONPATH} $(BIN)/python -m support.site
	$(BIN)/zensical build --strict --clean

pictures: $(STAMP) ## write the pictures in the documents again
	PYTHONPATH=tests$${PYTHONPATH:+:$$PYTHONPATH} $(BIN)/python -m support.pictures

clean: ## remove what the targets above made
	rm -rf $(VENV) .envs artifacts dist .pytest_cache .mypy_cache .ruff_cache .hypothesis

.PHONY: help install lint format types test quick frameworks references validate bench simulate mutation fuzz faults soak turns trees conformance nightly demo docs pictures clean
