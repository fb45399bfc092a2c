# One command per wish; the work is done by CMake presets and the scripts. JOBS and TEST_JOBS may be set by the caller.
SHELL := bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
.NOTPARALLEL:

ifndef JOBS
JOBS := $(shell scripts/jobs)
endif
TEST_JOBS ?= $(JOBS)
PRESETS := release asan tsan

.PHONY: help setup build test $(PRESETS:%=test-%) summary demo bench clean

help: ## show this list
	@sed -nE 's/^([a-z][a-z -]*):[^#]*## (.*)/make \1\t\2/p' Makefile | expand -t 40

setup: ## install missing packages (Debian, Ubuntu)
	@scripts/setup

build: ## release build into build/release
	@echo "== release: configure"
	cmake --preset release
	@echo "== release: build, $(JOBS) at once"
	cmake --build --preset release -j $(JOBS)

test: setup ## everything: release, then asan, then tsan
	@rm -f build/*/ctest.log; status=0; \
	for preset in $(PRESETS); do \
	  $(MAKE) --no-print-directory JOBS=$(JOBS) test-$$preset || { status=$$?; break; }; \
	done; \
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

summary: ## what the latest tests said
	@for preset in $(PRESETS); do \
	  echo "== $$preset"; \
	  sed -n '/tests passed/,$$p' build/$$preset/ctest.log 2> /dev/null || echo "no finished test run"; \
	done

demo: setup ## train a network with dense and sparse gradients, side by side
	@echo "== release: configure"
	cmake --preset release
	@echo "== release: build what the demo runs, $(JOBS) at once"
	cmake --build --preset release -j $(JOBS) --target demo
	@scripts/demo

bench: setup build ## speed of this machine: sparse against dense all-reduce
	build/release/bin/sparsecoll-perf --ranks threads:4 -n 1000000 --density 0.01 --preset all --against dense

clean: ## remove everything that was built
	rm -rf build
