#!/usr/bin/env bash
# A program compiled with an older header runs with today's library.
# usage: older.sh SOURCE_DIR LIBRARY C_COMPILER
set -euo pipefail
root=$1 library=$2 compiler=$3
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
mkdir "$folder/sparsecoll"
# Today's header without the fields that stand last in its structs, as a version before them had it.
# cut STRUCT FIRST: no field from FIRST on.
awk '
  function cut(name, first) { from[name] = first }
  BEGIN {
    cut("sparsecollConfig_t", "security")
    cut("sparsecollParams_t", "distribution")
    cut("sparsecollReducerConfig_t", "densitySchedule")
    cut("sparsecollStats_t", "entriesLost")
  }
  /^#define SPARSECOLL_VERSION_CODE/ { print "#define SPARSECOLL_VERSION_CODE SPARSECOLL_VERSION(0, 0, 1)"; next }
  /^typedef struct \{/ { inside = 1; text = ""; }
  inside { text = text $0 "\n" }
  inside && /^} / {
    inside = 0
    name = $2
    sub(/;.*/, "", name)
    if (name in from) {
      at = match(text, "\n  [^\n/]*[ *]" from[name] ";")
      if (at == 0) { print "older.sh: " name " has no " from[name] > "/dev/stderr"; exit 1 }
      text = substr(text, 1, at) $0 "\n"
      ++done
    }
    printf "%s", text
    next
  }
  !inside { print }
  END { if (done != 4) { print "older.sh: " done + 0 " structs were cut" > "/dev/stderr"; exit 1 } }
' "$root/include/sparsecoll/sparsecoll.h" > "$folder/sparsecoll/sparsecoll.h"
"$compiler" -std=c99 -pedantic -Wall -Wextra -Werror -I"$folder" -o "$folder/older" "$root/tests/abi/older.c" "$library"
LD_LIBRARY_PATH=$(dirname "$library") "$folder/older"
echo "a program of version 0.0.1 runs"
