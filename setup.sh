#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# One door to everything: builds, runs, tests. Installs what is missing with apt where it may;
# otherwise it prints the line that does. Builds happen in build*/ beside this file.
#
# Environment: COLIBRI_BUILD_DIR  build folder of `run`, `build` and `wheel` [build]
#              COLIBRI_JOBS       compilations at once [number of processors]
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"
export LC_ALL=C.UTF-8
export HOME="${HOME:-/tmp}"

readonly build_packages="cmake ninja-build g++ pkg-config libtbb-dev nlohmann-json3-dev \
libpcre2-dev libutf8proc-dev libxxhash-dev libcli11-dev"
readonly test_packages="catch2 python3 clang-format clang-tidy python3-pytest python3-venv \
patchelf binutils"
readonly build_dir="${COLIBRI_BUILD_DIR:-build}"
readonly jobs="${COLIBRI_JOBS:-$(nproc)}"

# Where packages come from apt, it is Debian's Python that has them; another may come first in PATH.
python=python3
if command -v dpkg-query >/dev/null; then python=/usr/bin/python3; fi
readonly python

# Test programs of the sanitizer builds: what reads hostile bytes, owns memory, has threads.
readonly asan_targets="test_base test_base_parallel test_snapshot test_tokenizer test_residency test_convert test_converter \
test_runtime test_capi test_capi_inside"
readonly tsan_targets="test_base_parallel test_residency test_runtime test_capi"

say() { printf '%s\n' "$*" >&2; }
fail() { say "setup.sh: $*"; exit 1; }

show_help() {
  cat <<'HELP'
./setup.sh run [PROMPT [OPTIONS]]  build what is needed and let a small model continue PROMPT
./setup.sh chat [OPTIONS]          the same, as a conversation
./setup.sh build                   build the library and the colibri command
./setup.sh wheel                   make a Python wheel in dist/ with the library and a small model
./setup.sh test                    all that CI checks: tests, Python package, layout, lint, sanitizer builds
./setup.sh format                  lay out all C and C++ files with clang-format
./setup.sh lint                    run clang-tidy
./setup.sh help                    this text
HELP
}

missing_packages() {
  local package missing=""
  for package in "$@"; do
    [ "$(dpkg-query -W -f='${db:Status-Status}' "$package" 2>/dev/null)" = installed ] ||
      missing+=" $package"
  done
  printf '%s' "$missing"
}

# Installs the packages that are not there. Nothing is asked and nothing is removed.
need_packages() {
  if ! command -v dpkg-query >/dev/null; then
    command -v cmake >/dev/null && command -v ninja >/dev/null && return
    fail "this is no Debian; install what these Debian packages hold, then run again: $*"
  fi
  local missing
  missing=$(missing_packages "$@")
  [ -z "$missing" ] && return
  local sudo=""
  if [ "$(id -u)" -ne 0 ]; then
    sudo="sudo"
    if ! command -v sudo >/dev/null || { [ ! -t 0 ] && ! sudo -n true 2>/dev/null; }; then
      fail "packages are missing; run this line as root, then this script again:" \
        "apt-get install -y --no-install-recommends$missing"
    fi
  fi
  say "Installing$missing"
  local install="env DEBIAN_FRONTEND=noninteractive apt-get -q install -y --no-install-recommends"
  # shellcheck disable=SC2086
  if ! $sudo $install $missing >&2; then
    $sudo apt-get -q update >&2 || fail "apt-get update failed; is there a network?"
    $sudo $install $missing >&2 || fail "apt-get could not install$missing"
  fi
}

# Configures once; ninja runs CMake again by itself when a CMake file changed.
configure() {
  local dir=$1
  shift
  [ -f "$dir/build.ninja" ] || cmake -S . -B "$dir" -G Ninja "$@" >&2
}

build_command() {
  if [ ! -x "$build_dir/bin/colibri" ]; then
    # shellcheck disable=SC2086
    need_packages $build_packages
    say "Building libcolibri and the colibri command in $build_dir/ (once, a minute or two)"
    configure "$build_dir" -DCOLIBRI_TESTS=OFF
    ninja -C "$build_dir" -j "$jobs" colibri colibri_command >&2
  else
    ninja -C "$build_dir" -j "$jobs" --quiet colibri colibri_command >&2
  fi
}

run() {
  local prompt="Once upon a time"
  if [ $# -gt 0 ]; then
    prompt=$1
    shift
  fi
  build_command
  "$build_dir/bin/colibri" generate --echo "$@" -- "$prompt"
}

source_files() {
  find include lib cpu examples tests \( -name '*.h' -o -name '*.c' -o -name '*.cpp' \) -print0 |
    sort -z
}

check_format() { source_files | xargs -0 clang-format --dry-run --Werror; }

lint() {
  configure build-test -DCOLIBRI_WERROR=ON || return 1
  find lib cpu -name '*.cpp' -print0 | sort -z |
    xargs -0 -P "$jobs" -n 4 clang-tidy --quiet -p build-test \
      --extra-arg=-Wno-unknown-warning-option 2>&1 |
    sed -E '/warnings? (generated|treated)|^Suppressed|^Use -header/d'
}

run_tests() {
  configure build-test -DCOLIBRI_WERROR=ON && ninja -C build-test -j "$jobs" &&
    ctest --test-dir build-test --output-on-failure --no-tests=error -j "$jobs"
}

# The Python package with the library that run_tests has built.
python_tests() {
  COLIBRI_LIBRARY="$PWD/build-test/lib/capi/libcolibri.so" PYTHONPATH="$PWD/bindings/python/src" \
    "$python" -m pytest -q -rs bindings/python
}

wheel() {
  # shellcheck disable=SC2086
  need_packages $build_packages python3 patchelf binutils
  build_command
  "$python" bindings/python/build_wheel.py --library "$build_dir/lib/capi/libcolibri.so" \
    --output dist
}

# sanitizer_tests KIND TARGETS: builds these test programs with a sanitizer and runs them. -O1 keeps
# them quick, assertions stay on; the sanitizers confuse one warning of GCC.
sanitizer_tests() {
  local kind=$1 targets=$2
  configure "build-$kind" -DCOLIBRI_SANITIZE="$kind" -DCOLIBRI_EXAMPLES=OFF \
    -DCMAKE_BUILD_TYPE=None -DCMAKE_C_FLAGS="-O1 -g1" \
    -DCMAKE_CXX_FLAGS="-O1 -g1 -Wno-maybe-uninitialized" || return 1
  # shellcheck disable=SC2086
  ninja -C "build-$kind" -j "$jobs" $targets &&
    ctest --test-dir "build-$kind" --output-on-failure --no-tests=error -j "$jobs" \
      -R "^(${targets// /|})(:|\$)"
}

failed_parts=""
part() {
  local name=$1 begin=$SECONDS
  shift
  printf '\n== %s\n' "$name"
  if "$@"; then
    printf '== %s: passed, %d s\n' "$name" $((SECONDS - begin))
  else
    printf '== %s: FAILED, %d s\n' "$name" $((SECONDS - begin))
    failed_parts+=" [$name]"
  fi
}

run_ci() {
  # shellcheck disable=SC2086
  need_packages $build_packages $test_packages
  part "layout (clang-format)" check_format
  part "tests" run_tests
  part "Python bindings" python_tests
  part "lint (clang-tidy)" lint
  part "address and undefined-behaviour sanitizers" sanitizer_tests address "$asan_targets"
  part "thread sanitizer" sanitizer_tests thread "$tsan_targets"
  printf '\n'
  [ -z "$failed_parts" ] || fail "failed:$failed_parts"
  printf 'All parts passed in %d s\n' "$SECONDS"
}

command=${1:-help}
[ $# -gt 0 ] && shift
case "$command" in
  run) run "$@" ;;
  chat)
    build_command
    "$build_dir/bin/colibri" chat "$@"
    ;;
  build) build_command ;;
  wheel) wheel ;;
  test) run_ci ;;
  format) source_files | xargs -0 clang-format -i ;;
  lint) lint ;;
  help | --help | -h) show_help ;;
  *)
    say "setup.sh: there is no '$command'; see ./setup.sh help"
    exit 2
    ;;
esac
