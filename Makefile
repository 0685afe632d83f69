# make smoke      set up, and run the main job: the smoke recipe on two pretended nodes of this machine
# make test       set up, and test: unit, golden, property, conformance, one real gang (≤ 15 minutes)
# make test-e2e   the other real services and faults (≤ 40 minutes)
# make check      all that CI asks: lint, types, imports, docs, tests
# make iris-client  set up, and install the newest Iris client: controllers refuse one that is 14 days behind them
# make fix · golden · docs · reference · bench · pins · clean
SHELL := /bin/sh
.DEFAULT_GOAL := help
unexport PYTHONDONTWRITEBYTECODE
export UV_PYTHON_DOWNLOADS := never
export UV_NO_PROGRESS := 1
export NO_MKDOCS_2_WARNING := 1

PY := .venv/bin/python
PLUGINS := $(patsubst %/pyproject.toml,%,$(wildcard plugins/*/pyproject.toml))
SOURCES := $(addprefix -e ./,$(PLUGINS))
RECIPES := docs/recipes
SMOKE := --cluster local --rl_config $(RECIPES)/smoke.yaml --model_path toy/grpo --train_data '["builtin/sums"]' --num-nodes 2

.PHONY: help setup setup-test setup-check iris-client smoke test test-e2e check lint fix golden docs reference bench pins clean
help:
	@sed -n 's/^# make /make /p' Makefile

# One environment, three sizes; each stamp means "holds at least that list". --compile-bytecode: without it every start
# of rlaunch, Ray's workers and the driver compiles again (a two-node gang: 52 s instead of 32 s).
define install
	@python=$$(tools/find-python) || exit 1; \
	uv=$$(tools/find-uv "$$python") || exit 1; \
	[ -x $(PY) ] && $(PY) -c '' 2>/dev/null || "$$uv" venv --quiet --clear --python "$$python" .venv || exit 1; \
	"$$uv" pip install --quiet --python $(PY) --compile-bytecode -r requirements/$(1).txt -e . $(SOURCES) || exit 1; \
	touch $@
endef
FILES := pyproject.toml $(addsuffix /pyproject.toml,$(PLUGINS))
.venv/.has-run: requirements/run.txt $(FILES)
	$(call install,run)
.venv/.has-test: requirements/test.txt $(FILES)
	$(call install,test)
	@touch .venv/.has-run
.venv/.has-check: requirements/check.txt $(FILES)
	$(call install,check)
	@touch .venv/.has-run .venv/.has-test
setup: .venv/.has-run
setup-test: .venv/.has-test
setup-check: .venv/.has-check

# From this checkout, since the plugin is in no registry; `-P` takes the newest of what the plugin's extra names.
iris-client: setup
	@python=$$(tools/find-python) && uv=$$(tools/find-uv "$$python") && \
	"$$uv" pip install --quiet --python $(PY) --compile-bytecode -P marin-iris -P marin-finelog -P marin-rigging \
		-e . -e './plugins/iris[client]'

smoke: setup
	.venv/bin/rlaunch $(SMOKE)

test: setup-test
	$(PY) -m pytest -m "not e2e" $(PYTEST)

test-e2e: setup-test
	$(PY) -m pytest -m e2e $(PYTEST)

lint: setup-check
	.venv/bin/ruff check .
	.venv/bin/ruff format --check .
	.venv/bin/mypy
	.venv/bin/lint-imports --no-cache

check: lint docs test

fix: setup-check
	.venv/bin/ruff check --fix .
	.venv/bin/ruff format .

golden: setup-test
	$(PY) -m pytest --update-golden tests/golden

reference: setup-check
	$(PY) tools/reference.py

docs: setup-check
	$(PY) tools/reference.py --check
	.venv/bin/mkdocs build --strict --quiet

bench: setup
	$(PY) benchmarks/startup.py
	$(PY) benchmarks/check.py
	$(PY) benchmarks/gang.py
	$(PY) benchmarks/idle.py

# Names and versions only, good for every Python that we run on; no URLs, no hashes. The largest list is resolved, and
# the smaller ones are parts of it. The `client` extra is the Iris client's.
COMPILE = "$$uv" pip compile --quiet --universal --python-version 3.11 --no-header --no-annotate \
	--no-emit-package rlaunch pyproject.toml $(addsuffix /pyproject.toml,$(PLUGINS))
pins:
	@python=$$(tools/find-python) && uv=$$(tools/find-uv "$$python") && \
	$(COMPILE) --extra client --group check -o requirements/check.txt $(PINS) && \
	$(COMPILE) --extra client --group test -c requirements/check.txt -o requirements/test.txt && \
	$(COMPILE) --group run -c requirements/check.txt -o requirements/run.txt

clean:
	rm -rf .venv .uv site dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
