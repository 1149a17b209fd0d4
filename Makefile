# make run: train the headline nets and draw them, into my-run/.   make test: lint, types, tests.   Both make .venv first.
# make docs: the documentation as a site, in site/.   make notebooks: those of examples/, from the programs there.
# make handouts: each notebook as one HTML file that loads nothing, in handouts/.
# make test-release: the wheel in fresh environments.   make test-lowest: the tests with the oldest versions that pyproject.toml allows.
SHELL := bash
VENV := .venv
PYTHON := $(VENV)/bin/python
RUNNABLE := $(VENV)/.runnable
INSTALLED := $(VENV)/.installed
LOWEST := .venv-lowest
HANDOUTS := handouts

.PHONY: run test test-release test-lowest docs notebooks handouts figures screenshot readme sweep reproduce bench clean

run: $(RUNNABLE)
	$(PYTHON) -m my_run
	@echo "Before the commands of README.md: . $(VENV)/bin/activate"

test: $(INSTALLED)
	@echo "Checking and testing, which takes 2 to 4 minutes on two idle cores ..."
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/mypy
	$(PYTHON) -m pytest -q -n auto --maxprocesses 4 --dist worksteal

test-release: $(INSTALLED)
	@echo "Installing the wheel into fresh environments, which takes about 3 minutes ..."
	$(PYTHON) -m pytest -q tests/release.py

test-lowest:
	python3.11 -m venv --clear $(LOWEST)
	set -o pipefail; $(LOWEST)/bin/python -c 'import tomllib; p = tomllib.load(open("pyproject.toml", "rb"))["project"]; \
		print(*p["dependencies"], *p["optional-dependencies"]["test"], sep="\n")' | sed 's/>=/==/' > $(LOWEST)/versions.txt
	$(LOWEST)/bin/python -m pip install --quiet --constraint $(LOWEST)/versions.txt --editable '.[test]'
	$(LOWEST)/bin/python -m pytest -q -W default -n auto --maxprocesses 4 --dist worksteal

docs: $(INSTALLED)  # --quiet would hide the warnings that --strict counts
	NO_MKDOCS_2_WARNING=1 $(VENV)/bin/mkdocs build --strict --config-file docs/mkdocs.yml
	@echo "Open site/index.html; its search needs a server: $(PYTHON) -m http.server --bind localhost --directory site"

notebooks: $(INSTALLED)  # needs MNIST; a few minutes
	$(PYTHON) docs/notebooks.py

handouts: $(INSTALLED)
	$(PYTHON) -m pip install --quiet --editable '.[notebooks]'
	$(PYTHON) -m nbconvert --log-level ERROR --to html --template-file docs/handout.html.j2 \
		--output-dir $(HANDOUTS) examples/*.ipynb

figures: $(RUNNABLE)
	$(PYTHON) visualize_highway_networks.py run.json run_sweep.json
	$(PYTHON) make_highway_networks_gif.py run.json
	$(PYTHON) -m experiments plot
	$(PYTHON) -m benchmarks plot
	$(MAKE) readme

screenshot:  # of the page's figure 4, by Chromium; as root it needs --no-sandbox
	chromium --headless --force-prefers-reduced-motion --virtual-time-budget=9999 --hide-scrollbars \
		--window-size=1200,5600 --screenshot=viz/gate_explorer.png viz/gate_explorer.html
	$(PYTHON) -c 'from PIL import Image; path = "viz/gate_explorer.png"; \
		Image.open(path).crop((56, 4215, 1144, 5517)).save(path)'

readme: $(RUNNABLE)
	$(PYTHON) -m pages

sweep: $(RUNNABLE)
	$(PYTHON) highway_networks.py --seeds 0-19 --depths 5,10,20,30,50 --jobs 2

reproduce: $(RUNNABLE)
	$(PYTHON) highway_networks.py --seed 0
	$(MAKE) sweep
	$(PYTHON) -m experiments run
	$(MAKE) figures

bench: $(INSTALLED)
	$(PYTHON) -m pip install --quiet --editable '.[bench]'
	env -u OPENBLAS_CORETYPE $(PYTHON) -m benchmarks training_step --json benchmarks/training_step.json
	env -u OPENBLAS_CORETYPE $(PYTHON) -m benchmarks conv_step --json benchmarks/conv_step.json
	env -u OPENBLAS_CORETYPE $(PYTHON) -m benchmarks estimators --json benchmarks/estimators.json
	$(MAKE) figures

$(RUNNABLE): pyproject.toml
	@echo "Installing into $(VENV), which takes half a minute or more ..."
	python3 -m venv $(VENV)
	$(PYTHON) -m pip install --quiet --editable .
	touch $@

$(INSTALLED): $(RUNNABLE)
	@echo "Installing what tests and documentation need, which takes about as long again ..."
	$(PYTHON) -m pip install --quiet --editable '.[test,docs]'
	touch $@

clean:  # the environment, and what can be resumed
	rm -rf $(VENV) $(LOWEST) $(HANDOUTS) my-run site runs/checkpoints runs/*.jsonl run*.jsonl
