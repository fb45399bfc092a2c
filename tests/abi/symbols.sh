#!/usr/bin/env bash
# The functions that the header declares, the committed list, the version script and the built library are the same set.
# usage: symbols.sh SOURCE_DIR LIBRARY
set -euo pipefail
export LC_ALL=C
source_dir=$1 library=$2
header=$source_dir/include/sparsecoll/sparsecoll.h
list=$source_dir/abi/sparsecoll.syms
failed=0

# same WHAT: compares the names on standard input with the committed list.
same() {
  if diff -u --label "abi/sparsecoll.syms" --label "$1" "$list" <(sort); then
    echo "ok: $1"
  else
    failed=1
  fi
}

sort --check --unique "$list"
sed -nE 's/^SPARSECOLL_API(_QUIET)? .*[ *](sparsecoll[A-Za-z0-9]+)\(.*/\2/p' "$header" | same "functions in the header"
sed -nE 's/^ +(sparsecoll[A-Za-z0-9]+);$/\1/p' "$source_dir/abi/sparsecoll.map" | same "names in abi/sparsecoll.map"
# Every name must carry the version; the version node itself is the absolute (A) symbol.
nm -D --defined-only --format=posix "$library" | grep -v ' A ' | cut -d' ' -f1 | sed 's/@@SPARSECOLL_0$//' |
  same "symbols exported by $(basename "$library")"

declared=$(grep -cE '^SPARSECOLL_API' "$header")
if [ "$declared" != "$(wc -l < "$list")" ]; then
  echo "FAIL: $declared declarations in the header, another number of names (return type, name and '(' go on one line)"
  failed=1
fi
soname=$(objdump -p "$library" | sed -nE 's/^ *SONAME +//p')
if [ "$soname" != libsparsecoll.so.0 ]; then
  echo "FAIL: the library's SONAME is '$soname' and not libsparsecoll.so.0"
  failed=1
fi
exit $failed
