# make run: train the headline nets and draw their pictures.   make test: lint and tests.   Both make .venv first.
VENV := .venv
PYTHON := $(VENV)/bin/python
INSTALLED := $(VENV)/.installed

.PHONY: run test figures sweep reproduce bench clean

run: $(INSTALLED)
	$(PYTHON) highway_networks.py --seed 0
	$(MAKE) figures

test: $(INSTALLED)
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .
	$(PYTHON) -m pytest -q

figures: $(INSTALLED)
	$(PYTHON) visualize_highway_networks.py
	$(PYTHON) make_highway_networks_gif.py
	$(PYTHON) -m experiments plot
	$(PYTHON) -m benchmarks.training_step_figures
	$(PYTHON) readme_tables.py

sweep: $(INSTALLED)
	$(PYTHON) highway_networks.py --seeds 0,1,2,3,4 --depths 5,10,20,30,50 --jobs 2

reproduce: $(INSTALLED)
	$(PYTHON) highway_networks.py --seed 0
	$(MAKE) sweep
	$(PYTHON) -m experiments run
	$(MAKE) figures

bench: $(INSTALLED)
	$(PYTHON) -m pip install --quiet --editable '.[bench]'
	env -u OPENBLAS_CORETYPE $(PYTHON) -m benchmarks.training_step --json benchmarks/training_step.json
	env -u OPENBLAS_CORETYPE $(PYTHON) -m benchmarks.main_job --json benchmarks/main_job.json
	$(MAKE) figures

$(INSTALLED): pyproject.toml
	python3 -m venv $(VENV)
	$(PYTHON) -m pip install --quiet --editable '.[test]'
	touch $@

clean:
	rm -rf $(VENV)
