#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Compiles every kernel file with its own flags, but without optimisation (which would hide the fault by inlining), and
# looks at the symbols: a weak or unique one (W, V, u) is an inline function that a baseline caller could pick up with
# instructions of this set.
#
# Usage: kernel_objects_test.sh COMPILER SOURCE_ROOT "FLAGS" FILE...
set -eu

compiler=$1
root=$2
flags=$3
shift 3

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failed=0
for file in "$@"; do
  # shellcheck disable=SC2086  # flags are a list
  "$compiler" -std=c++20 -fPIC -I "$root" $flags -O0 -c "$root/cpu/$file" -o "$work/object.o"
  found=$(nm -C "$work/object.o" | grep -E '^[0-9a-fA-F ]+ [WwVvu] ' || true)
  if [ -n "$found" ]; then
    echo "$file has weak or unique symbols:"
    echo "$found"
    failed=1
  fi
done
if [ "$#" -eq 0 ]; then
  echo "no kernel files were given"
  failed=1
fi
exit "$failed"
