#!/usr/bin/env bash
# Ranks that Open MPI's mpirun or MPICH's mpiexec has started are one training, with the bits of ranks in threads.
# usage: launchers.sh TRAINER OPTIONS...      exit code 77: neither of them is here
set -euo pipefail
trainer=$1
shift
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
export UCX_LOG_LEVEL=fatal OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1

fail() { echo "FAIL: $*"; exit 1; }
fingerprint() { grep -oE '"fingerprint": "[0-9a-f]+"' "$1"; }

"$trainer" "$@" --ranks 2 --json "$dir/threads.json" > /dev/null 2> "$dir/log" || { cat "$dir/log"; fail "threads"; }
found=0
for start in "mpirun.openmpi -n 2 --oversubscribe --bind-to none" "mpiexec.mpich -n 2"; do
  read -ra words <<< "$start"
  command -v "${words[0]}" > /dev/null || continue
  found=1
  status=0
  timeout 300 "${words[@]}" "$trainer" "$@" --json "$dir/job.json" > "$dir/out" 2> "$dir/log" || status=$?
  [ $status = 0 ] || { cat "$dir/log"; fail "${words[0]}: status $status"; }
  [ "$(grep -c '^preset ' "$dir/out")" = 1 ] || fail "${words[0]}: not one table, but a training of each process"
  diff <(fingerprint "$dir/threads.json") <(fingerprint "$dir/job.json") || fail "${words[0]}: other results"
  rm "$dir/job.json"
  echo "${words[0]}: as threads"
done
[ $found = 1 ] || { echo "skipped: no mpirun.openmpi or mpiexec.mpich here"; exit 77; }
