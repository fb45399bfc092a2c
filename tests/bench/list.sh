#!/usr/bin/env bash
# sparsecoll-perf --list names every preset's selector and collective and its paper, with a year.
# usage: list.sh PERF PRESETS_PROGRAM
set -euo pipefail
list=$("$1" --list)
line='^[a-z-]+ +selector (-|[a-z_]+) +collective [a-z_]+ +[A-Z].* (19|20)[0-9]{2}'
while read -r preset; do
  grep -E "$line" <<< "$list" | grep -c "^$preset " > /dev/null || { echo "FAIL: $preset in:"; echo "$list"; exit 1; }
done < <("$2")
[ "$(wc -l <<< "$list")" = "$("$2" | wc -l)" ] || { echo "FAIL: other presets:"; echo "$list"; exit 1; }
echo "$list"
