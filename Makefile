# Thin verbs. Each is a line or two into CMake; `make run` and `make test` work on a fresh Debian 12.
#
#   make run                  build, then run an example in a sandbox
#   make build                build/sbx only
#   make all                  everything: tests, probes and benchmark programs too
#   make test                 unit, lint and integration tests
#   make install PREFIX=/usr/local DESTDIR=
#   make lint asan bench fuzz clean

PREFIX ?= /usr/local
DESTDIR ?=
JOBS ?= $(shell nproc)
EXAMPLE ?= examples/hello.py
FUZZ_SECONDS ?= 60
MAKEFLAGS += --no-print-directory
.NOTPARALLEL:
.DEFAULT_GOAL := build
.PHONY: all build configured run test unit-test integration-test install lint asan asan-test bench fuzz clean

configured:
	@tools/install-deps.sh build
	@[ -f build/build.ninja ] || cmake --preset release

build: configured
	@cmake --build build -j $(JOBS) --target sbx

all: configured
	@cmake --build build -j $(JOBS)

run: build
	@echo
	@echo '$$ build/sbx run --result build/hello.json $(EXAMPLE)'
	@build/sbx run --result build/hello.json $(EXAMPLE)
	@echo
	@echo 'build/hello.json says, among other things:'
	@grep -E '^  "(verdict|exit_code|exit_status)"' build/hello.json

test: all unit-test integration-test

unit-test:
	@cd build && ctest --output-on-failure -j $(JOBS)

integration-test:
	@if [ -f tests/run.py ]; then python3 tests/run.py --binary build/sbx; fi

install: build
	@DESTDIR='$(DESTDIR)' cmake --install build --prefix '$(PREFIX)' --strip

# clang-tidy with the short list of .clang-tidy, every finding an error.
lint:
	@tools/install-deps.sh lint
	@[ -f build/build.ninja ] || cmake --preset release
	@cmake --build build -j $(JOBS) --target generated_sources
	@tools/lint.sh build $(JOBS)

asan:
	@tools/install-deps.sh build
	@[ -f build-asan/build.ninja ] || cmake --preset asan
	@cmake --build build-asan -j $(JOBS)

asan-test: asan
	@cd build-asan && ctest --output-on-failure -j $(JOBS)

bench: all
	@if [ -f tests/bench/run.py ]; then python3 tests/bench/run.py --binary build/sbx; \
	else echo 'there is no tests/bench/run.py' >&2; exit 1; fi

# Every fuzzer for FUZZ_SECONDS, starting from its corpus; what it finds is written below build-fuzz/.
fuzz:
	@tools/install-deps.sh fuzz
	@[ -f build-fuzz/build.ninja ] || cmake --preset fuzz
	@cmake --build build-fuzz -j $(JOBS)
	@tools/fuzz.sh build-fuzz $(FUZZ_SECONDS)

clean:
	@rm -rf build build-asan build-fuzz
