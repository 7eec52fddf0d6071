# Needs Python 3.11+ and make only. Each target sets up what it lacks.
PYTHON ?= python3
BIN := .venv/bin
READY := .venv/ready

# Contracts, registries, what is refused and how, results and the command line: what a change most often breaks.
QUICK := tests/test_contract.py tests/test_core.py tests/test_schedules.py tests/basics/test_keys.py tests/cli/test_cli_text.py \
	tests/data tests/networks/test_networks_registry.py tests/results tests/specs

.PHONY: install test test-quick coverage lowest lint format check types layers docs reproduce findings bench soak clean
.DELETE_ON_ERROR:

install: $(READY)

$(READY): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Gossamer needs Python 3.11 or later, but $(PYTHON) is " + sys.version.split()[0] + ": set PYTHON=…")'
	@test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[dev]'
	@touch $@

test: $(READY)
	$(BIN)/pytest -n auto --dist worksteal

lowest:
	$(PYTHON) tests/lowest.py

lint: format check types layers

format: $(READY)
	$(BIN)/ruff format --check .

check: $(READY)
	$(BIN)/ruff check .

types: $(READY)
	$(BIN)/basedpyright

layers: $(READY)
	$(BIN)/lint-imports

docs: $(READY)
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

reproduce: $(READY)
	$(BIN)/gossamer reproduce --out runs/reproduction

findings: reproduce
	$(BIN)/python docs/findings.py runs/reproduction

bench: $(READY)
	$(BIN)/python -m benchmarks
	$(BIN)/python benchmarks/torch_step.py

soak: $(READY)
	$(BIN)/python benchmarks/torch_soak.py

clean:
	rm -rf .venv site .pytest_cache .ruff_cache .hypothesis
