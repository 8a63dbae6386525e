# Thin verbs. Each is a line or two into CMake; `make run` and `make test` work on a fresh Debian 12.
#
#   make run                  build, then run an example in a sandbox
#   make build                build/sbx only
#   make all                  everything: tests, probes and benchmark programs too
#   make test                 unit, lint and integration tests, leaks, inside against outside, system calls: six minutes
#   make test-faults          every system call of a start fails, with each plausible errno, and what sbx does without descriptors,
#                             memory, disk or processes: half an hour
#   make test-guest           cases and leaks in virtual machines with systemd and all cgroup v2 controllers (Debian 12 and 13)
#   make soak RUNS=10000      mixed runs and attacks, 64 at once (AT_ONCE=64), with random kills, as root and as the user: nothing left, nothing
#                             grows; make soak-guest: the same in both virtual machines, GUEST_RUNS=1000
#   make containment          docs/containment.md anew: the escape suite here, selftest beside bwrap, nsjail and firejail here and in virtual machines
#   make test-sessions        the drivers of sessions, against a real ipykernel too
#   make test-plots           what Python and R programs show comes back, with Debian's matplotlib, plotly, ggplot2 …
#   make test-languages       programs in forty languages, whose packages it installs: ten minutes
#   make asan-test            unit and integration tests with AddressSanitizer and UndefinedBehaviorSanitizer; SPREAD=1: each
#                             case as root or as the user, not both; PART=1/2: one half of the cases
#   make cross-arm64          build-arm64/sbx for aarch64
#   make test-containers      real containers, made with podman, as root: a minute and a half; make test-guest-containers: one that owns its
#                             cgroup, in a virtual machine: ten
#   make test-compat          bubblewrap's own suites and real clients against our bwrap, next to upstream's own binary; nsjail's
#                             binary next to ours: two minutes
#   make deb tarball          packages, in dist/ with SHA256SUMS; make test-packages: installs and removes them in throw-away
#                             roots; make test-guest-packages: in virtual machines
#   make install PREFIX=/usr/local DESTDIR=
#   make reference            docs/commands.md, docs/policy-keys.md, docs/guide/09-troubleshooting.md, docs/nsjail-fields.md and docs/schema/policy-v1.json anew, from the tables
#   make bench                start-up times and more against the goals of docs/performance.md: five minutes; make bench-quick: one
#   make lint asan fuzz clean
#   make WERROR=ON …          warnings are errors; CHECK_SKIPS=1: only the cases of tests/expected-skips*.txt may be skipped

PREFIX ?= /usr/local
DESTDIR ?=
JOBS ?= $(shell nproc)
# Cases at a time: many wait for a limit.
CASES ?= $(shell echo $$(($(JOBS) * 2)))
EXAMPLE ?= examples/hello.py
FUZZ_SECONDS ?= 60
WERROR ?=
CHECK_SKIPS ?=
SPREAD ?=
PART ?=
LINT_CHECKS ?=
GUESTS ?= debian12 debian13
RUNS ?= 10000
AT_ONCE ?= 64
GUEST_RUNS ?= 1000
MAKEFLAGS += --no-print-directory
.NOTPARALLEL:
.DEFAULT_GOAL := build
.PHONY: all build configured run install deb tarball reference lint asan bench bench-quick fuzz clean cross-arm64
.PHONY: test unit-test integration-test leak-test fault-test test-faults differential-test differential budget budget-test asan-test
.PHONY: soak soak-guest containment
.PHONY: test-languages test-plots test-sessions test-packages test-containers test-compat test-guest test-guest-containers test-guest-packages

# preset NAME FOLDER: configures when the folder is new, or when another choice of warnings is asked for.
preset = { [ -f $(2)/build.ninja ] && [ -z '$(WERROR)' ]; } || cmake --preset $(1) $(if $(WERROR),-DSBX_WERROR=$(WERROR))
skips = $(if $(CHECK_SKIPS),$(addprefix --check-skips ,$(1)))

configured:
	@tools/install-deps.sh build
	@$(call preset,release,build)

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

test: all unit-test integration-test leak-test fault-test differential-test budget-test

unit-test:
	@cd build && ctest --output-on-failure --repeat until-pass:2 -j $(JOBS)

integration-test:
	@python3 tests/run.py --binary build/sbx -j $(CASES) $(call skips,tests/expected-skips.txt)

leak-test:
	@python3 tests/leak.py --binary build/sbx --runs 200

fault-test:
	@python3 tests/faults/run.py --binary build/sbx --quick -j $(CASES)

# Every call in every kind of start, with every plausible errno in every place; then real shortages.
test-faults: all
	@python3 tests/faults/run.py --binary build/sbx -j $(CASES) --json build/faults.json
	@python3 tests/faults/resources.py --binary build/sbx

differential-test:
	@python3 tests/differential/compare.py --binary build/sbx --quick

# Some three thousand programs; the first time fetches the sources of the interpreters' own test-suites into build/differential.
differential: build
	@tools/install-deps.sh differential
	@python3 tests/differential/compare.py --binary build/sbx -j $(JOBS) --as user,root --require-all --record build/differential.jsonl

budget budget-test: all
	@python3 tests/start_budget.py --binary build/sbx

test-containers: build
	@tools/install-deps.sh containers
	@python3 tests/containers/run.py --binary build/sbx --tarball "$$(packaging/package.sh tarball build)" --check-table docs/ci.md $(call skips,tests/containers/expected-skips.txt)

test-compat: build
	@tools/install-deps.sh compat
	@python3 tests/compat/run.py --binary build/sbx -j $(JOBS) $(call skips,tests/compat/expected-skips.txt)

test-guest-containers: build
	@tools/install-deps.sh containers
	@tests/guest/run_guest.py debian13-podman --binary build/sbx --script tests/containers/guest.sh --file "$$(command -v busybox)"

# The images are made once and kept in build/guest-cache, or $$SBX_GUEST_CACHE.
test-guest: build
	@tools/install-deps.sh guest
	@cmake --build build -j $(JOBS) --target probe
	@python3 tests/guest/run_guest.py $(GUESTS) --binary build/sbx

soak: build
	@cmake --build build -j $(JOBS) --target probe
	@python3 tests/soak/soak.py --binary build/sbx --runs $(RUNS) --at-once $(AT_ONCE) --json build/soak.json

soak-guest: build
	@tools/install-deps.sh guest
	@cmake --build build -j $(JOBS) --target probe
	@echo '--runs $(GUEST_RUNS) --at-once $(AT_ONCE)' > build/soak-options
	@python3 tests/guest/run_guest.py $(GUESTS) --binary build/sbx --script tests/soak/guest.sh --file build/soak-options --memory 6144 --boot-limit 1200 --limit $$((1800 + $(GUEST_RUNS) * 5))

containment: build
	@tools/install-deps.sh guest compat
	@cmake --build build -j $(JOBS) --target probe
	@python3 tests/escape/record.py --binary build/sbx

test-guest-packages: build
	@tools/install-deps.sh guest
	@tests/guest/run_guest.py debian12 debian13 --binary build/sbx --script tests/packages/guest.sh --file "$$(packaging/package.sh deb build)"

test-plots: all
	@tools/install-deps.sh plots
	@python3 tests/run.py --binary build/sbx --cases tests/plots $(call skips,tests/plots/expected-skips.txt)

required_languages = awk,sed,jq,bc,dc,m4,make,ed,zsh,fish,tcl,sqlite,scheme,commonlisp,prolog,luajit,fortran,pascal,nasm,assembly,forth,basic,rexx,sml

test-languages: build
	@tools/install-deps.sh languages more-languages
	@python3 tests/languages/behaviours.py --binary build/sbx -j $(JOBS)
	@python3 tests/languages/programs.py --binary build/sbx -j $(JOBS) -k '^programs/'
	@python3 tests/languages/programs.py --binary build/sbx -j $(JOBS) -k '^(more|remembered)/' --as user --require $(required_languages)

install: build
	@DESTDIR='$(DESTDIR)' cmake --install build --prefix '$(PREFIX)' --strip

deb tarball: build
	@packaging/package.sh $@ build

test-sessions: all
	@tools/install-deps.sh sessions
	@python3 tests/sessions/driver_test.py --all-pythons --fuzz 10
	@python3 tests/sessions/golden.py
	@python3 tests/run.py --binary build/sbx --cases tests/sessions $(call skips,tests/sessions/expected-skips.txt)

test-packages: build
	@tools/install-deps.sh packages
	@python3 tests/packages/run.py --build build

reference: build
	@build/sbx help --format markdown > docs/commands.md
	@build/sbx help --format keys > docs/policy-keys.md
	@build/sbx help --format schema > docs/schema/policy-v1.json
	@build/sbx help --format hints > docs/guide/09-troubleshooting.md
	@build/sbx help --format nsjail > docs/nsjail-fields.md

# clang-tidy with the short list of .clang-tidy, every finding an error; LINT_CHECKS takes some away.
lint:
	@tools/install-deps.sh lint
	@$(call preset,release,build)
	@cmake --build build -j $(JOBS) --target generated_sources
	@tools/lint.sh build $(JOBS) '$(LINT_CHECKS)'

asan:
	@tools/install-deps.sh build
	@$(call preset,asan,build-asan)
	@cmake --build build-asan -j $(JOBS)

asan-test: asan
	@cd build-asan && ctest --output-on-failure --repeat until-pass:2 -j $(JOBS)
	@python3 tests/run.py --binary build-asan/sbx -j $(CASES) $(if $(SPREAD),--spread) $(if $(PART),--part $(PART)) $(call skips,tests/expected-skips.txt tests/expected-skips-asan.txt)

# What is installed of bwrap, nsjail and firejail is measured beside sbx.
bench: all
	@python3 tests/bench/bench.py --binary build/sbx --json build/bench.json --svg build/bench.svg

bench-quick: all
	@python3 tests/bench/bench.py --binary build/sbx --quick

# Every fuzzer until it has used FUZZ_SECONDS of CPU time, JOBS at a time; what fails is kept in build/fuzz-findings/.
fuzz:
	@tools/install-deps.sh fuzz
	@[ -f build-fuzz/build.ninja ] || cmake --preset fuzz
	@cmake --build build-fuzz -j $(JOBS) --target fuzzers
	@python3 tests/fuzz/run.py build-fuzz --seconds $(FUZZ_SECONDS) --jobs $(JOBS)

# The filters and what is embedded are written by tools of this machine's own build.
cross-arm64: build
	@tools/install-deps.sh cross
	@tools/arm64-sysroot.sh build-arm64/sysroot
	@[ -f build-arm64/build.ninja ] || cmake --preset arm64
	@cmake --build build-arm64 -j $(JOBS) --target sbx
	@readelf -h build-arm64/sbx | grep -q AArch64 && ! readelf -d build-arm64/sbx | grep -q NEEDED || { echo "build-arm64/sbx is no static program for aarch64" >&2; exit 1; }
	@qemu-aarch64-static build-arm64/sbx --version

clean:
	@rm -rf build build-asan build-fuzz build-arm64 dist
