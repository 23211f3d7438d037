# Two commands do all the set-up: `make run` and `make test`.
PYTHON ?= python3
VENV   ?= .venv
BIN     = $(VENV)/bin
PIP     = $(BIN)/python -m pip --disable-pip-version-check --quiet

.PHONY: run lab test soak bench check format clean

run: $(VENV)/lab.stamp
	@$(BIN)/python -m jupyter_subagents.execute notebooks/01_quickstart.ipynb
	@echo
	@echo "The same notebook in JupyterLab, with live cards:  make lab"

# JupyterLab wants to be told when it runs as root, as in containers.
lab: $(VENV)/lab.stamp
	$(BIN)/jupyter lab $(shell test "$$(id -u)" = 0 && echo --allow-root) notebooks/01_quickstart.ipynb

test: $(VENV)/test.stamp chromium
	$(BIN)/python -m pytest

# The long forms of tests/soak; `make soak SOAK=10` multiplies them. Prints the counts reached.
SOAK ?= 1
soak: $(VENV)/test.stamp
	SOAK=$(SOAK) $(BIN)/python -m pytest tests/soak --timeout=2400

bench: $(VENV)/test.stamp
	$(BIN)/python benchmarks/start.py

check: $(VENV)/dev.stamp
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	@command -v npx >/dev/null || { echo "npx is not here: card.js is not type-checked"; exit 0; }; \
	    npx --yes --package typescript@5 tsc --noEmit --allowJs --checkJs --strict --target es2022 --module es2022 \
	    --lib es2022,dom,dom.iterable jupyter_subagents/static/card.js
	$(BIN)/python -m pytest tests/meta

format: $(VENV)/dev.stamp
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

clean:
	rm -rf $(VENV) build dist

$(VENV)/%.stamp: pyproject.toml | $(VENV)/bin/python
	@echo "Installing jupyter-subagents[$*] into $(VENV) ..."
	@$(PIP) install --editable '.[$*]'
	@touch $@

$(VENV)/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	    { echo "Python 3.11 or later is needed; name one with make PYTHON=python3.12"; exit 1; }
	@$(PYTHON) -m venv $(VENV)

# The browser tests drive Debian's Chromium; where there is none and apt is available, it is installed.
.PHONY: chromium
chromium:
	@command -v chromium >/dev/null || command -v chromium-browser >/dev/null || command -v google-chrome >/dev/null || { \
	    command -v apt-get >/dev/null || { echo "Install Chromium for the browser tests."; exit 1; }; \
	    SUDO=$$(test "$$(id -u)" = 0 || echo sudo); \
	    echo "Installing Chromium ..."; \
	    $$SUDO apt-get -qq update && \
	    DEBIAN_FRONTEND=noninteractive $$SUDO apt-get -qq install --yes --no-install-recommends chromium >/dev/null; }
