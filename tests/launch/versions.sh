#!/usr/bin/env bash
# Ranks with two builds of the library, of two minor versions, meet (T40): all get Mismatch, which names the rank and both
# versions. Ranks with the second one alone meet and sum.
# usage: versions.sh SPARSECOLL_RUN LAUNCHED_PROGRAM FOLDER_OF_SECOND_LIBRARY MINOR SECOND_MINOR
#        exit code 77: this build has no libsodium
set -euo pipefail
run=$1 program=$2 later=$3
first=$(($4 * 100)) second=$(($5 * 100))
said=$(mktemp)
trap 'rm -f "$said"' EXIT
export UCX_LOG_LEVEL=fatal
fail() { echo "FAIL: $*"; cat "$said"; exit 1; }

# with RANKS: these, of three, have the second library
with() {
  status=0
  timeout 120 "$run" -n 3 --grace 20 bash -c '
    case $1 in *"$SPARSECOLL_RANK"*) export LD_LIBRARY_PATH=$2 ;; esac
    exec "$3"' with "$1" "$later" "$program" > "$said" 2>&1 || status=$?
}

with 012
[ "$status" != 77 ] || { echo "skipped: no libsodium here"; exit 77; }
[ "$status" = 0 ] || fail "ranks with the second library alone: status $status"
for ranks in 1 12 0; do
  with "$ranks"
  [ "$status" = 1 ] || fail "two libraries, the second on $ranks: status $status"
  other=1 theirs=$second own=$first
  [ "$ranks" != 0 ] || { theirs=$first own=$second; }
  [ "$(grep -c "ranks disagree: .*: rank $other has version $theirs of this library, rank 0 has $own" "$said")" = 3 ] ||
    fail "the second library on $ranks: not all ranks say which versions"
done
echo "two versions refuse each other by name"
