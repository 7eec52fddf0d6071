# Needs Python 3.11+ and make only. Each target sets up what it lacks.
PYTHON ?= python3
BIN := .venv/bin
READY := .venv/ready

.PHONY: install test lowest lint docs reproduce findings bench soak clean
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

lint: $(READY)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/basedpyright
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
