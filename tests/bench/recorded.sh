#!/usr/bin/env bash
# sparsecoll-fit and sparsecoll-perf on gradients from files: what is known of an exponential distribution comes out, and
# files that are no gradients are named.
# usage: recorded.sh WRITE_GRADIENT SPARSECOLL_FIT SPARSECOLL_PERF
set -euo pipefail
export LC_ALL=C
write_gradient=$1 fit=$2 perf=$3

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"

fail() {
  echo "FAIL: $*"
  cat out
  exit 1
}

# kept_to_k ESTIMATOR: what it kept over k, the last column of its line.
kept_to_k() { awk -v name="  $1 " 'index($0, name) == 1 { print $NF }' out; }

# near ESTIMATOR LOW HIGH
near() {
  local found
  found=$(kept_to_k "$1")
  [ -n "$found" ] || fail "no line for $1"
  awk -v found="$found" -v low="$2" -v high="$3" 'BEGIN { exit !(found >= low && found <= high) }' ||
    fail "$1 keeps $found k, not $2 to $3"
  echo "$1: kept/k $found"
}

# refused STATUS WORDS COMMAND...
refused() {
  local expected=$1 words=$2 status=0
  shift 2
  "$@" > out 2>&1 || status=$?
  [ $status = "$expected" ] || fail "$* ended with $status, not $expected"
  grep -qF -- "$words" out || fail "$* does not say: $words"
  echo "refused: $(tail -n 1 out)"
}

"$write_gradient" a.npy 200000
"$fit" --density 0.01 --svg fit.svg --json fit.json a.npy > out
near 'exact top-k' 1 1
near 'histogram quantile' 0.97 1.03
near exponential 0.9 1.1
near gamma 0.9 1.1
near Pareto 0.9 1.1
near gaussiank 0.97 1.03
near redsync 0.97 1.03
grep -qF 'n 200000, zeros 0, not finite 0' out || fail "the counts are wrong"
[ "$(grep -c '<polyline' fit.svg)" = 7 ] && [ "$(tail -n 1 fit.svg)" = '</svg>' ] || fail "fit.svg is no plot of 7 curves"
! grep -qE '[ ,"]-?(nan|inf)' fit.svg || fail "fit.svg has points that are nowhere"
grep -qF '"kept_to_k"' fit.json || fail "fit.json is empty"

mkdir recorded
cp a.npy recorded/step1-rank0.npy
"$write_gradient" recorded/step1-rank1.npy 200000
"$perf" --dist file:recorded --dry-run --preset topka > out
grep -qE '^ *200000 ' out || fail "a gradient is not as long as the first file"
"$perf" --dist file:recorded --ranks threads:2 --preset topka --steps 2 --warmup 1 > out
grep -qE '^ *200000 .* topka .* 0 $' out || fail "no good row for topka"

head -c 400000 a.npy > short.npy
refused 4 'short.npy: truncated' "$fit" short.npy
refused 4 'short.npy: truncated' "$perf" --dist file:short.npy --dry-run
printf 'no array' > bad.npy
refused 4 'bad.npy: not a .npy file' "$fit" a.npy bad.npy
refused 4 'nowhere.npy: cannot be opened' "$fit" nowhere.npy
refused 4 'nowhere/fit.svg: cannot be written' "$fit" --svg nowhere/fit.svg a.npy
refused 3 '--density: 2 is not' "$fit" --density 2 a.npy
refused 3 'FILE' "$fit"
