# One command per wish; the work is done by CMake presets and the scripts. JOBS and TEST_JOBS may be set by the caller.
SHELL := bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
.NOTPARALLEL:

ifndef JOBS
JOBS := $(shell scripts/jobs)
endif
# Tests of deadlines and of ranks that are lost sleep most of their time.
TEST_JOBS ?= $(shell echo $$(($(JOBS) + 1)))
PRESETS := release asan tsan

.PHONY: help setup build install cuda-all test $(PRESETS:%=test-%) summary test-msan test-trainers test-wheel test-python-latest wheel demo bench hosts crossing grid pytorch-hosts compare-dense fuzz mutants coverage stress soak convergence golden docs clean

help: ## show this list
	@sed -nE 's/^([a-z][a-z -]*):[^#]*## (.*)/make \1\t\2/p' Makefile | expand -t 40

setup: ## install missing packages (Debian, Ubuntu)
	@scripts/setup

build: ## release build into build/release; device code for this machine's GPU, or without one for sm_90
	@echo "== release: configure"
	cmake --preset release
	@echo "== release: build, $(JOBS) at once"
	cmake --build --preset release -j $(JOBS)

PREFIX ?= /opt/sparsecoll
install: ## library, sparsecoll-run, -perf, -tune, -fit and -flight into PREFIX (/opt/sparsecoll), without building tests: minutes
	@echo "== release: configure"
	cmake --preset release
	@echo "== release: build what is installed, $(JOBS) at once"
	cmake --build --preset release -j $(JOBS) --target installed
	cmake --install build/release --prefix "$(PREFIX)"

cuda-all: ## the library for all supported GPUs into build/cuda-all, to be installed elsewhere
	@echo "== cuda-all: configure"
	cmake --preset cuda-all
	@echo "== cuda-all: build, $(JOBS) at once"
	cmake --build --preset cuda-all -j $(JOBS)

test: setup ## everything: release, then asan, then tsan; each is built while the one before is tested
	@! command -v nvcc > /dev/null || [ -d build/nvidia ] || timeout 180 scripts/fetch-nvidia || \
	  echo "without those tools the test cuda.sass is skipped"
	@status=0; scripts/suite $(JOBS) $(TEST_JOBS) $(PRESETS) || status=$$?; \
	$(MAKE) --no-print-directory summary; \
	exit $$status

test-release test-asan test-tsan: test-%: ## configure, build and run the tests of one preset
	@echo "== $*: configure"
	cmake --preset $*
	@echo "== $*: build, $(JOBS) at once"
	cmake --build --preset $* -j $(JOBS)
	@echo "== $*: test"
	@rm -f build/$*/ctest.log
	ctest --preset $* -j $(TEST_JOBS) --output-log "$(CURDIR)/build/$*/ctest.log"

summary: ## what the latest tests said, and the last words of those that failed
	@scripts/summary $(PRESETS)

test-msan: ## what is used before somebody has written it, by MemorySanitizer; needs clang (scripts/setup --fuzz): minutes
	cmake --preset msan
	cmake --build --preset msan -j $(JOBS)
	ctest --preset msan

test-trainers: setup ## train with every preset under AddressSanitizer and UBSan: about 20 minutes
	@echo "== asan-trainers: configure"
	cmake --preset asan-trainers
	@echo "== asan-trainers: build the trainers, $(JOBS) at once"
	cmake --build --preset asan-trainers -j $(JOBS)
	@echo "== asan-trainers: test"
	ctest --preset asan-trainers -j $(TEST_JOBS)

demo: setup ## train a network with dense and sparse gradients, side by side
	@echo "== demo: configure"
	cmake --preset demo
	@echo "== demo: build what it runs, $(JOBS) at once"
	cmake --build --preset demo -j $(JOBS)
	@scripts/demo

bench: setup ## speed of this machine: sparse against dense all-reduce
	@echo "== release: configure"
	cmake --preset release
	@echo "== release: build sparsecoll-perf, $(JOBS) at once"
	cmake --build --preset release -j $(JOBS) --target sparsecoll-perf
	build/release/bin/sparsecoll-perf --ranks threads:4 --elements 1000000 --density 0.01 --preset all --against dense

stress: setup ## kill, abort and shrink ranks in processes many times, over every engine: about 20 minutes
	cmake --preset release -DSPARSECOLL_SHARE_TESTS=OFF
	cmake --build --preset release -j $(JOBS) --target processes_failures_test processes_regroup_test \
	  processes_rate_test
	@SPARSECOLL_TEST_TIMES=1 build/release/bin/processes_rate_test
	@SPARSECOLL_TEST_TRIALS=200 SPARSECOLL_TEST_ABORTS=1000 build/release/bin/processes_failures_test
	@SPARSECOLL_TEST_SHRINKS=200 SPARSECOLL_TEST_ABORTS=200 build/release/bin/processes_regroup_test

OPERATIONS ?= 10000000
soak: setup ## OPERATIONS (ten million) small operations over threads and each engine, with memory at the start and the end
	cmake --preset release
	cmake --build --preset release -j $(JOBS) --target processes_soak_test
	@SPARSECOLL_TEST_OPERATIONS=$(OPERATIONS) build/release/bin/processes_soak_test

convergence: setup ## train every example with dense and sparse exchange, hours; writes docs/convergence.md
	cmake --preset release
	cmake --build --preset release -j $(JOBS) --target cnn lstm sentiment ncf speech
	@scripts/convergence

hosts: setup ## dense against sparse between 4 hosts made of namespaces; RATE=1gbit DENSITIES=0.1,0.01,0.001 PRESETS=all STEPS=5 ENGINES=tcp,ucx TURNS=2; NODES=2x2: hosts of several ranks
	cmake --preset release
	cmake --build --preset release -j $(JOBS) --target hosts
	@tests/hosts/hosts.sh build/release/bin table

CROSSING ?= build/crossing
crossing: setup ## from which rate of the links on dense is faster, as CSV and figure in CROSSING (build/crossing); RATES=100mbit,1gbit,none ELEMENTS=1000000 PRESETS=topka DENSITY=0.01
	cmake --preset release
	cmake --build --preset release -j $(JOBS) --target hosts
	@mkdir -p "$(CROSSING)"
	@tests/hosts/hosts.sh build/release/bin crossing | tee "$(CROSSING)/crossing.csv"
	@scripts/plot "$(CROSSING)/crossing.csv" --out "$(CROSSING)"

GRID ?= build/grid.csv
grid: setup ## whether auto finds the fastest preset between hosts made of namespaces, as CSV in GRID (build/grid.csv), about 40 minutes; ELEMENTS= DENSITIES= COUNTS=2,4 RATES=100mbit,none PRESETS=topka,spardl BUDGET=10 (seconds a cell)
	cmake --preset release
	cmake --build --preset release -j $(JOBS) --target hosts
	@tests/hosts/hosts.sh build/release/bin grid | tee "$(GRID)"

pytorch-hosts: ## DistributedDataParallel over gloo against sparse hooks between hosts made of namespaces, as CSV; COUNTS="2 4" RATES="100mbit 1gbit"
	cmake --preset release
	cmake --build --preset release -j $(JOBS) --target sparsecoll
	@bench/pytorch/hosts.sh build/release/lib/libsparsecoll.so

compare-dense: ## dense sums beside gloo's and Open MPI's on 2 and 4 processes of this machine, as CSV; OPTIONS="--ranks 4 --steps 50"
	cmake --preset release
	cmake --build --preset release -j $(JOBS) --target sparsecoll
	@bench/dense/compare.py build/release/lib/libsparsecoll.so $(OPTIONS)

wheel: ## sdist and wheel of the Python package into dist; needs a package index
	@CMAKE_BUILD_PARALLEL_LEVEL=$(JOBS) scripts/wheel dist

test-wheel: ## build the wheel, install it without a compiler, train on two ranks: minutes
	@CMAKE_BUILD_PARALLEL_LEVEL=$(JOBS) tests/python/wheel_test.sh

test-python-latest: setup ## the Python tests and the trainers with the newest PyTorch of the package index, in build/latest; PYTHON= INDEX=
	@JOBS=$(JOBS) tests/python/latest_test.sh build/latest

golden: ## faithful methods beside records of what the authors' programs did
	cmake --preset release
	cmake --build --preset release -j $(JOBS) --target golden_test
	@build/release/bin/golden_test "[.table]"

FUZZ_SECONDS ?= 60
fuzz: ## look for inputs that break a parser, FUZZ_SECONDS (60) for each; with clang's libFuzzer, or at random
	@scripts/setup --fuzz
	@if echo 'int main() {}' | clang++ -x c++ -fsanitize=fuzzer-no-link - -o /dev/null 2> /dev/null; then preset=fuzz; else preset=asan; fi; \
	cmake --preset $$preset && cmake --build --preset $$preset -j $(JOBS) --target fuzz && \
	tests/fuzz/run.sh build/$$preset $(FUZZ_SECONDS)

COUNT ?= 200
mutants: setup ## alter the library in COUNT (200) places, one at a time, and see whether a test notices; SEED= draws the same again. Hours
	@scripts/mutate --count $(COUNT) $(if $(SEED),--seed $(SEED))

coverage: ## which outcomes of the library's conditions its host tests have seen; installs clang. About an hour
	@scripts/setup --coverage
	@scripts/coverage

docs: ## HTML of the header and of all pages into build/docs; installs doxygen
	@scripts/setup --docs
	@scripts/docs

clean: ## remove everything that was built
	rm -rf build
