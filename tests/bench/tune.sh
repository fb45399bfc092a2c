#!/usr/bin/env bash
# sparsecoll-tune on two ranks of this host writes a file that the library takes: auto has no trials, or fewer. Ranks with
# other files get Mismatch, and a run that fails leaves the file of an earlier one.
# usage: tune.sh TUNE PERF RUN
set -euo pipefail
tune=$1 perf=$2 run=$3
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
fail() { echo "FAIL: $*"; exit 1; }
export SPARSECOLL_LOG=info
"$run" -n 2 "$tune" --transport tcp -b 64K -e 256K -f 4 --densities 0.1,0.01 --seconds 0.05 -o "$dir/tuned.csv" \
  > "$dir/said" 2>&1 || fail "$(cat "$dir/said")"
expected='# sparsecoll tuner file 1
# sparsecoll [0-9.]+, commit [^ ]+, 20[-0-9T:]+Z
ranks,2
nodes,1
engine,tcp
type,f32
elements,density,topka,sparcml-split,spardl,dense
16384,0\.1,TIMES
16384,0\.01,TIMES
65536,0\.1,TIMES
65536,0\.01,TIMES'
paste -d '\n' <(sed 's/TIMES/[0-9.e-]+,[0-9.e-]+,[0-9.e-]+,[0-9.e-]+/; s/.*/^&$/' <<< "$expected") "$dir/tuned.csv" > "$dir/pairs"
while read -r pattern && read -r line; do
  grep -Eq -- "$pattern" <<< "$line" || fail "'$line' is not $pattern"
done < "$dir/pairs"
[ "$(wc -l < "$dir/tuned.csv")" = 11 ] || fail "$(cat "$dir/tuned.csv")"
[ ! -e "$dir/tuned.csv.part" ] || fail "a part of the file stays"
grep -q "written to $dir/tuned.csv" "$dir/said" || fail "$(cat "$dir/said")"

# auto FILE RANKS: what two or so ranks say with that file.
auto() {
  SPARSECOLL_TUNER_FILE=$1 "$run" -n "$2" "$perf" --transport tcp --elements 20000 --density 0.05 --preset auto -n 2 -w 1 2>&1
}
auto "$dir/tuned.csv" 2 > "$dir/said" || fail "$(cat "$dir/said")"
! grep -q 'is not used' "$dir/said" || fail "$(cat "$dir/said")"
auto "$dir/tuned.csv" 3 > "$dir/said" || fail "$(cat "$dir/said")"
grep -q 'TUNER_FILE is not used: it was made for 2 ranks on 1 nodes over tcp, f32; here are 3 ' "$dir/said" ||
  fail "$(cat "$dir/said")"
# One that leaves a single candidate.
sed -E 's/^([0-9]+,[0-9.]+),.*/\1,9,9,1,9/' "$dir/tuned.csv" > "$dir/one.csv"
auto "$dir/one.csv" 2 > "$dir/said" || fail "$(cat "$dir/said")"
grep -q 'auto took .*: spardl, 1 ms by the tuner file' "$dir/said" || fail "$(cat "$dir/said")"

# Every rank its own.
mkdir "$dir/0" "$dir/1"
cp "$dir/tuned.csv" "$dir/0/file.csv"
cp "$dir/one.csv" "$dir/1/file.csv"
status=0
"$run" -n 2 bash -c 'SPARSECOLL_TUNER_FILE=$0/$SPARSECOLL_RANK/file.csv exec "$@"' "$dir" "$perf" --transport tcp \
  --elements 20000 --density 0.05 --preset auto -n 2 -w 1 > "$dir/said" 2>&1 || status=$?
[ $status != 0 ] || fail "ranks with other files went on"
grep -q 'ranks disagree: .*tunerFile: not the same on rank 0 and rank 1' "$dir/said" || fail "$(cat "$dir/said")"

# What the library would not read is not measured.
status=0
"$tune" --ranks threads:2 -b 4K -e 4K --densities 0.01,0.1,0.01 -o "$dir/twice.csv" > "$dir/said" 2>&1 || status=$?
[ $status = 3 ] && [ ! -e "$dir/twice.csv" ] && grep -q '0.01 is given twice' "$dir/said" || fail "$status, $(cat "$dir/said")"

# The file of an earlier run stays.
before=$(cksum < "$dir/tuned.csv")
status=0
(ulimit -f 0 && trap '' XFSZ && SPARSECOLL_LOG= exec "$tune" --ranks threads:2 -b 4K -e 4K --seconds 0.01 -o "$dir/tuned.csv") \
  > /dev/null 2> "$dir/full" || status=$?
[ $status != 0 ] || fail "a full disk went unnoticed"
[ "$before" = "$(cksum < "$dir/tuned.csv")" ] || fail "the file of an earlier run is gone"
echo passed
