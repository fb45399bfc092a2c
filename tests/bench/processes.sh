#!/usr/bin/env bash
# sparsecoll-perf over processes finds nothing wrong, and its sums have the hashes that ranks on threads have.
# usage: processes.sh PERF TRANSPORT LAUNCHER OPTIONS...    LAUNCHER OPTIONS... -n RANKS PROGRAM starts ranks
set -euo pipefail
perf=$1 transport=$2
shift 2
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
what=(--elements 20000 --preset dense,topka,threshold,micro,spardl --dtype f32,f64 --steps 2 --warmup 1)
against=()
[ "$transport" != mpi ] || against=(--against native)
"$@" -n 3 "$perf" --transport "$transport" "${what[@]}" "${against[@]}" --json "$dir/processes.json" > "$dir/printed"
"$perf" --ranks threads:3 "${what[@]}" --json "$dir/threads.json" > /dev/null
hashes() { grep -E '"(preset|dtype|sum_hash|wrong)"' "$1"; }
hashes "$dir/processes.json" > "$dir/processes"
hashes "$dir/threads.json" > "$dir/threads"
diff -u "$dir/threads" "$dir/processes"
[ "$(grep -c '"wrong": 0' "$dir/processes")" = 10 ]
grep -q "\"ranks\": \"$transport:3\"" "$dir/processes.json"
[ "$transport" != mpi ] || grep -q 'MPI_Allreduce itself' "$dir/printed"
# One process prints.
[ "$(grep -c '^# sparsecoll-perf' "$dir/printed")" = 1 ]
