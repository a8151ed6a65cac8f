# Everything a fresh Debian 12 needs is installed by `setup`; the other targets depend on it.
SHELL := /bin/bash
PYTHON ?= $(shell for p in python3.13 python3.12 python3.11 python3; do \
	command -v $$p >/dev/null && $$p -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && { echo $$p; break; }; done)
BIN := .venv/bin
APT := slurm-wlm slurmdbd slurm-wlm-basic-plugins slurm-wlm-jwt-plugin munge mariadb-server postgresql python3-venv lua5.1 systemd tzdata prometheus chromium chromium-driver ruby

ACTOR := tests/simulator/test_actor.py::test_the_loop_of_the_training_starts_every_job_when_simulate_does
SIMULATOR := tests/simulator/test_
MACHINE := $(SIMULATOR)predict_completion.py::test_jobs_that_take_the_whole_cluster_start_one_after_the_other \
	$(SIMULATOR)direct.py::test_partitions_with_nodes_of_their_own_are_clusters_of_their_own \
	$(SIMULATOR)direct.py::test_on_shared_partitions_every_job_runs_whole_and_none_is_lost \
	$(SIMULATOR)direct.py::test_fair_shares_are_of_all_jobs_there_and_not_of_those_that_wait \
	'$(SIMULATOR)feasibility.py::test_no_policy_does_the_impossible[fifo-fgd]'
PACKAGED := deadlines jwt learn postgres profile sim web
POOL := $(SIMULATOR)elastic_replay.py tests/policies/test_latest_leases.py $(ACTOR)

# Without bytecode each of many processes would compile all tests and the package for itself.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: demo test test-fast test-lowest test-releases soak lint compile-machine compile-pool compile-tests bench packages image \
	packages-test packages-lock screenshots setup clean

setup: .venv/.ready
.venv/.ready: setup.cfg pyproject.toml scripts/apt-install
	scripts/apt-install $(APT) || echo "not every package could be installed; the demo simulates, tests skip" >&2
	$(or $(PYTHON),python3) -m venv .venv
	$(BIN)/pip install --quiet --upgrade pip setuptools wheel
	$(BIN)/pip install --quiet --editable '.[test,mcp,soak]'
	$(BIN)/python -m compileall -q slurmsched
	touch $@

demo: setup
	$(BIN)/slurmsched demo --or-simulated

lint: setup
	$(BIN)/ruff check slurmsched tests examples packages contrib
	$(BIN)/ruff format --check slurmsched tests examples packages contrib
	$(BIN)/mypy

# The first run of these tests compiles the simulator for all workers of all tests, which would each do so for themselves.
# Those of MACHINE share most of what they compile; POOL shares nothing with them, and lint runs after it. So would the
# daemons on labs, whose users may not write here: warm-up compiles what is left of what they call.
compile-machine compile-pool: setup
	$(BIN)/pytest -q -m 'not soak' $(if $(findstring machine,$@),$(MACHINE),$(POOL))
	$(if $(findstring machine,$@),$(BIN)/slurmsched warm-up)

# Pytest compiles each test file that it reads and keeps the result; workers that start at once would each do so for all.
compile-tests: setup
	$(BIN)/pytest -q --collect-only >/dev/null

# Tests on a lab mostly wait for Slurm and mind the time, so their files run three at once, each worker with labs of its
# own; the others compute, or wait for processes, three files at once, and give way. Both together, each with its own
# summary of passes and skips.
# (Without job control the shell would have background tests ignore Ctrl-C, which some send.)
test: setup
	@$(MAKE) --no-print-directory -j2 compile-machine compile-pool lint compile-tests
	@set -m; log=$$(mktemp); rm -f build/tests/*.xml; \
	$(BIN)/pytest -m 'lab and not soak' -n 3 --dist loadfile --junitxml build/tests/lab.xml >$$log 2>&1 & lab=$$!; \
	nice -n 5 $(BIN)/pytest -m 'not lab and not soak' -n 3 --dist loadfile --junitxml build/tests/others.xml; others=$$?; \
	wait $$lab; labs=$$?; cat $$log; rm -f $$log; $(BIN)/python -m tests.durations; \
	exit $$((others | labs))

# Between commits: without a lab, and without the files that take longest (python -m tests.durations --fast chooses them).
test-fast: setup
	$(BIN)/pytest -m 'not lab and not soak' -n 2 --dist loadfile $(addprefix --ignore=,$(shell cat tests/slow_files.txt))

# The oldest versions that setup.cfg allows of all that it names, on a Python that they know. Each version of Numba keeps
# compiled code of its own, so that this one does not throw away what the others compiled.
test-lowest: .venv-lowest/.ready
	NUMBA_CACHE_DIR=$(CURDIR)/.venv-lowest/numba nice -n 5 .venv-lowest/bin/pytest -m 'not lab and not soak' -n 2 --dist loadfile

.venv-lowest/.ready: setup.cfg pyproject.toml scripts/lowest-versions
	$(firstword $(foreach p,python3.11 python3.12,$(shell command -v $(p))) python3) -m venv .venv-lowest
	scripts/lowest-versions >.venv-lowest/lowest.txt
	.venv-lowest/bin/pip install --quiet --upgrade pip setuptools wheel
	.venv-lowest/bin/pip install --quiet --constraint .venv-lowest/lowest.txt --editable '.[test]'
	mkdir -p -m 755 .venv-lowest/numba
	touch $@

# As root: builds the root trees of the other releases the first time; then half an hour and more for each release.
test-releases: setup
	$(BIN)/python scripts/test-releases --write docs/releases.md

soak: setup
	$(BIN)/pytest -m 'soak or attack' --durations=20; soak=$$?; \
	$(BIN)/pytest -m 'hypothesis and not lab and not soak' --hypothesis-profile=search; exit $$((soak | $$?))

# Of each page of the demo at three widths, light and dark, to build/screenshots.
screenshots: setup
	$(BIN)/python scripts/web-pictures build/screenshots

bench: setup
	$(BIN)/python -m tests.bench

# To dist/: .deb for Debian 12 and 13, .rpm for EL9, and wheels to install without a network. The first time wheels are
# downloaded, each with the hash of the lock. TARGETS names some: make packages TARGETS=deb12
packages: build/packages/.ready
	$(BIN)/python packages/build.py $(TARGETS)

# As root, to dist/: an OCI image for SUITE from the package for that Debian, which is built where it is missing.
SUITE := bookworm
image: build/packages/.ready
	ls dist/slurmsched_*~$(if $(filter trixie,$(SUITE)),deb13,deb12)_*.deb >/dev/null 2>&1 || \
		$(MAKE) --no-print-directory packages TARGETS=$(if $(filter trixie,$(SUITE)),deb13,deb12)
	$(BIN)/python packages/image.py --suite $(SUITE)

# As root: installs the packages for Debian in bare chroots without a network, by hand and by the roles of Ansible, upgrades
# them and takes them away again.
packages-test: setup build/packages/ansible/.ready
	$(BIN)/pytest -m soak tests/packages tests/install/test_first_minutes.py

build/packages/ansible/.ready:
	$(or $(PYTHON),python3) -m venv $(@D)
	$(@D)/bin/pip install --quiet ansible ansible-lint
	touch $@

# Other versions of what the packages hold: the newest that setup.cfg allows.
packages-lock: build/packages/.ready
	for python in 3.11 3.13; do $(BIN)/uv pip compile --quiet --no-header --no-annotate --generate-hashes --upgrade \
		--python-version $$python --python-platform x86_64-manylinux_2_28 $(addprefix --extra ,$(PACKAGED)) \
		--output-file packages/wheels-$$python.txt setup.cfg; done

build/packages/.ready: .venv/.ready
	scripts/apt-install debhelper rpm debootstrap
	$(BIN)/pip install --quiet --editable '.[packages]'
	mkdir -p $(@D) && touch $@

clean:
	find slurmsched -name __pycache__ -prune -exec rm -rf {} +
	rm -rf .venv .venv-lowest build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
