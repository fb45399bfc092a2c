#!/usr/bin/env bash
# The public header compiles without a warning in every language it promises, includes nothing but the two C headers it
# needs, hides no padding, and lays out its structs and enumerations as pinned in layout.c.
# usage: header.sh INCLUDE_DIR LAYOUT_FILE C_COMPILER CXX_COMPILER
set -euo pipefail
include_dir=$1 layout=$2
header=$include_dir/sparsecoll/sparsecoll.h
failed=0
fail() { echo "FAIL: $*"; failed=1; }

# check NAME COMPILER LANGUAGE STANDARD
check() {
  if "$2" -x "$3" -std="$4" -pedantic -Wall -Wextra -Wpadded -Werror -I"$include_dir" -fsyntax-only "$layout"; then
    echo "ok: $1 as $4"
  else
    fail "$1 as $4"
  fi
}

while read -r line; do
  fail "the header may not say: $line"
done < <(grep -E '^[[:space:]]*#[[:space:]]*include' "$header" | grep -vxE '#include <(stddef|stdint)\.h>')

while read -r name; do
  grep -q "VALUE($name, " "$layout" || fail "$name is not pinned in $layout"
done < <(grep -oE '\bsparsecoll[A-Z][A-Za-z0-9]* = [0-9]' "$header" | cut -d' ' -f1)

while read -r name; do
  grep -q "SIZE($name, " "$layout" || fail "$name is not pinned in $layout"
done < <(sed -nE 's/^.*\} (sparsecoll[A-Za-z0-9]+_t);.*$/\1/p' "$header")

# The build's own compilers, then clang where it is installed: it reads the C standard more strictly.
for compiler in "$3" clang; do
  command -v "$compiler" > /dev/null || continue
  check "$compiler" "$compiler" c c99
  check "$compiler" "$compiler" c c11
done
for compiler in "$4" clang++; do
  command -v "$compiler" > /dev/null || continue
  check "$compiler" "$compiler" c++ c++11
  check "$compiler" "$compiler" c++ c++20
done
exit $failed
