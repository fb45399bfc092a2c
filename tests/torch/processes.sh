#!/usr/bin/env bash
# Ranks in processes of their own, started by sparsecoll-run, do what ranks in threads do; so does a job that is stopped
# and resumed. usage: processes.sh SPARSECOLL_RUN TRAINER OPTIONS...
set -euo pipefail
run=$1 trainer=$2
shift 2
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
export TMPDIR=$dir UCX_LOG_LEVEL=fatal

fail() { echo "FAIL: $*"; exit 1; }
fingerprints() { grep -oE '"fingerprint": "[0-9a-f]+"' "$1"; }
job() { timeout 300 "$run" -n 3 -- "$trainer" "$@"; }

"$trainer" "$@" --ranks 3 --json "$dir/threads.json" > /dev/null 2> "$dir/log"
job "$@" --json "$dir/processes.json" --checkpoint "$dir/whole" > "$dir/out" 2> "$dir/log" || { cat "$dir/log"; fail "the job"; }
cat "$dir/out"
[ "$(grep -c '^preset ' "$dir/out")" = 1 ] || fail "not one table"
diff <(fingerprints "$dir/threads.json") <(fingerprints "$dir/processes.json") || fail "other results than with threads"

job "$@" --checkpoint "$dir/parts" --stop-after 7 > /dev/null 2> "$dir/log"
grep -c "stopped after step 7" "$dir/log"
grep -F -- "  sparsecoll-run -n 3 -- $trainer " "$dir/log" || fail "it does not say how to go on"
job "$@" --resume "$dir/parts" --json "$dir/resumed.json" > /dev/null 2> "$dir/log"
diff <(fingerprints "$dir/threads.json") <(fingerprints "$dir/resumed.json") || fail "other results when resumed"

echo "== a rank that fails ends the job"
for file in "$dir/parts"/*-rank2.pt; do truncate -s -1000 "$file"; done
status=0
job "$@" --resume "$dir/parts" > "$dir/out" 2>&1 || status=$?
[ $status != 0 ] && grep -F "rank 2" "$dir/out" || fail "a damaged checkpoint of rank 2: status $status"
