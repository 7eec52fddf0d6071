# Needs Python 3.11+ and make only. Each target sets up what it lacks.
PYTHON ?= python3
BIN := .venv/bin
READY := .venv/ready
# Dozens of processes import the same modules: each is compiled once, also where byte code is not written by default.
unexport PYTHONDONTWRITEBYTECODE
# To reproduce the paper takes the library and its kernels: an environment of its own, unless the one for tests is there.
RUN := $(if $(wildcard $(READY)),.venv,.venv-lean)

# Rules of each kind, registries, what is refused and how, results and the command line: what a change most often breaks.
RULES := $(patsubst %,'tests/test_contract.py::test_agrees_with_a_plain_loop[%]',biased-dmt d-psgd gt-hsgd beer push-pull)
QUICK := $(RULES) tests/test_core.py tests/test_schedules.py tests/test_shapes.py tests/cli/test_cli_text.py tests/data \
	tests/networks/test_networks_registry.py tests/results tests/specs
# Rooms in which arrays are handed from function to function: their tests run with every array checked against its annotation.
ROOMS := tests/compressors tests/networks tests/oracles tests/problems tests/engines/test_simulator.py \
	tests/results/test_statistics.py
# The documentation: its code, its commands and keys, and its check; and the report in a browser.
DOCS := tests/test_docs.py tests/test_readme.py tests/test_site.py tests/report/test_report_browser.py \
	tests/report/test_explore_browser.py

# The tests of a file share what they compile, so they run in one process.
# Papers that come with the library, but for Biased-DMT, which `make reproduce` runs.
PAPERS := $(filter-out biased-dmt,$(subst _,-,$(notdir $(patsubst %/,%,$(dir $(wildcard src/gossamer/papers/*/paper.toml))))))
CORES := $(shell nproc 2>/dev/null || echo 2)
PYTEST = $(BIN)/pytest -n $(CORES) --dist loadfile --no-loadscope-reorder

.PHONY: install test others shapes test-docs slow shuffled test-quick golden coverage lowest newest wheel lint format check types layers docs pages site-check gallery papers reproduce reproduce-quick findings robustness deep asynchrony who-wins proofs language recommend bench bench-quick performance soak gpu clean
.DELETE_ON_ERROR:

install: $(READY)

# $(call environment,DIRECTORY,WHAT): a virtual environment that has it, and the library's kernels, compiled where there is a C++ compiler.
# Byte code is made by all cores, not that of packages' own tests; some have files of which no byte code can be made.
define environment
@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Gossamer needs Python 3.11 or later, but $(PYTHON) is " + sys.version.split()[0] + ": set PYTHON=…")'
@test -x $(1)/bin/python || $(PYTHON) -m venv $(1)
$(1)/bin/python -m pip install --quiet --disable-pip-version-check --no-compile --constraint constraints.txt --editable '$(2)'
@$(1)/bin/python -m compileall -q -j 0 -x /tests/ $(1)/lib >/dev/null 2>&1; true
$(1)/bin/python -c 'from gossamer.problems import native; native.ready()'
@touch $(1)/ready
endef

$(READY): pyproject.toml constraints.txt
	$(call environment,.venv,.[dev])

.venv-lean/ready: pyproject.toml constraints.txt
	$(call environment,.venv-lean,.)

# Both at once: where tests of one wait for processes that they started, tests of the other compute. Neither prints before
# its end.
test: $(READY)
	$(MAKE) -j2 --output-sync others shapes

others: $(READY)
	$(PYTEST) $(MEASURED) -m 'not slow' $(patsubst %,--ignore=%,$(ROOMS) $(DOCS))

shapes: $(READY)
	GOSSAMER_SHAPES=1 $(PYTEST) $(MEASURED) -m 'not slow' $(ROOMS)

test-docs: $(READY)
	$(PYTEST) $(MEASURED) -m 'not slow' $(DOCS)

# worlds of many processes, popular trainers, most examples, rarer cases, and what trains for long: before a release, and
# where these are changed
slow: .venv/trainers
	$(PYTEST) -m slow

# Lightning, Accelerate and Hugging Face's Trainer, whose recipes slow tests follow, and torchft for elastic training
.venv/trainers: $(READY)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[recipes,elastic]'
	@touch $@

# in another order each time; SEED=7 repeats one
SEED := $(or $(SEED),$(shell date +%s))
shuffled: export GOSSAMER_SHUFFLE := $(SEED)
shuffled: others shapes test-docs slow

test-quick: $(READY)
	$(PYTEST) $(QUICK)

# what a change must not move, to the bit; PARTS="networks rules" compares some. `python -m tests.golden write` writes anew
golden: $(READY)
	$(BIN)/python -m tests.golden compare $(PARTS)

# the tests, and which lines they ran: a tenth slower
coverage: $(READY)
	rm -f .coverage
	$(MAKE) others shapes test-docs MEASURED='--cov --cov-append --cov-report='
	$(BIN)/coverage report

lowest:
	$(PYTHON) tests/lowest.py

newest:
	$(PYTHON) -m tests.newest

# source distribution and wheel in dist/, checked, and the wheel's command in an empty environment
wheel: $(READY)
	$(BIN)/python tests/wheel.py

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

# writes into the pages what the code knows: tables, numbers and parts of examples
pages: $(READY)
	$(BIN)/python docs/fill.py

# every page of the built documentation in Chromium, at two widths; pictures of five of them in both themes
site-check: docs
	$(BIN)/python docs/site_check.py site runs/site-check

reproduce: $(RUN)/ready
	$(RUN)/bin/gossamer reproduce --out runs/reproduction

# what decides the headline claims: who stalls, the floor of the bias, stable step sizes
reproduce-quick: $(RUN)/ready
	$(RUN)/bin/gossamer reproduce --quick --out runs/quick

findings: reproduce
	$(RUN)/bin/python docs/findings.py runs/reproduction

# the other papers, each with its verdicts in two readings, and their page
papers: $(RUN)/ready
	for paper in $(PAPERS); do $(RUN)/bin/gossamer reproduce $$paper --out runs/papers/$$paper || exit 1; done
	$(RUN)/bin/python docs/papers.py runs/papers

# the same with other seeds, the other sign of the bias and another graph: which verdicts turn
robustness: $(RUN)/ready
	$(RUN)/bin/python docs/robustness.py runs/robustness

# the examples, each with what it prints and draws
gallery: $(READY)
	$(BIN)/python docs/gallery.py

# Fashion-MNIST must be there: apt-get install dataset-fashion-mnist
deep: $(READY)
	$(BIN)/gossamer run examples/fashion-mnist.toml --out runs/deep
	$(BIN)/gossamer report runs/deep
	$(BIN)/python docs/deep.py runs/deep

# asynchronous methods against synchronous ones, in seconds of a clock
asynchrony: $(READY)
	$(BIN)/python docs/asynchrony.py

# D-PSGD, GT-DSGD, GNSD and Biased-DMT by graph, heterogeneity, bias and noise, exactly; floors of biases
who-wins: $(READY)
	$(BIN)/python docs/who_wins.py

# bounds that a machine proves, beside the paper's theorem
proofs: $(READY)
	$(BIN)/python docs/proofs.py

# a language model on four processes: loss against bytes and seconds
language: $(READY)
	$(BIN)/python examples/torch_language.py --out docs/assets/language/found.json
	$(BIN)/python docs/language.py docs/assets/language/found.json

# how often `gossamer recommend` is right where the answer is known
recommend: $(READY)
	$(BIN)/python -m benchmarks.recommending

bench: $(READY)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[peers]' \
		|| echo "Decent-DP could not be installed: steps are measured without it"
	$(BIN)/python -m benchmarks
	$(BIN)/python benchmarks/torch_step.py
	$(BIN)/python benchmarks/torch_memory.py
	$(BIN)/python benchmarks/torch_clock.py

bench-quick: $(READY)
	$(BIN)/python -m benchmarks --quick --out runs/bench-quick

performance: bench
	$(BIN)/python docs/performance.py runs/bench
	$(BIN)/python docs/clock.py runs/bench
	$(BIN)/python docs/training_costs.py runs/bench

soak: $(READY)
	$(BIN)/python benchmarks/torch_soak.py
	$(BIN)/python benchmarks/kills.py

# two or more GPUs of this machine: equality with CPUs, no waits of the host, order of messages, memory
gpu: $(READY)
	$(BIN)/python benchmarks/torch_gpu.py

clean:
	rm -rf .venv .venv-lean site .pytest_cache .ruff_cache .import_linter_cache .cache .hypothesis .coverage*
