#!/usr/bin/env bash
# Options of the trainers that no other test passes: each must work, and those that may not change results do not.
# usage: options.sh TRAINER OPTIONS...
set -euo pipefail
trainer=$1
shift
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT

fail() { echo "FAIL: $*"; exit 1; }
run() { echo "== $*"; "$trainer" "${common[@]}" --json "$dir/run.json" "$@" > "$dir/out" 2> "$dir/log" || { cat "$dir/log"; fail "$*"; }; }
fingerprint() { grep -oE '"fingerprint": "[0-9a-f]+"' "$dir/run.json" | tail -1; }
common=("$@" --eval-every 0 --density 0.05)

run --preset topka
plain=$(fingerprint)
[ -n "$plain" ] || fail "no fingerprint"
run --preset topka --bucket-mb 0.02
buckets=$(fingerprint)
run --preset topka --bucket-mb 0.02 --overlap
[ "$(fingerprint)" = "$buckets" ] || fail "overlap changes the result"
run --preset topka --seed 2
[ "$(fingerprint)" != "$plain" ] || fail "the seed changes nothing"
for change in --no-error-feedback "--vector-density 1" "--sharding contiguous" "--clip-norm 0.1" "--optimizer adam" \
  --no-recipe "--schedule-steps 2" "--momentum 0" \
  "--lr-schedule steps --milestones 0.1 --warmup-epochs 0.04" "--density-schedule 0.5,0.2 --schedule-steps 2" --nesterov \
  "--warmup-from 0.25 --warmup-epochs 1" "--weight-decay 0" "--batch-size 5" "--ranks 3"; do
  read -ra words <<< "$change"
  run --preset topka "${words[@]}"
  [ "$(fingerprint)" != "$plain" ] || fail "$change changes nothing"
done
run --preset micro,topka --compare dense
grep -F "gap to dense" "$dir/out" || fail "no comparison"
[ "$(grep -cE '^(dense|micro|topka) +[0-9]' "$dir/out")" = 3 ] || fail "not three trainings"

run --preset topka --metrics "$dir/m.jsonl" --eval-every 0.1
grep -F '"event":"test"' "$dir/m.jsonl" > /dev/null || fail "no test in the metrics"
[ "$(wc -l < "$dir/m.jsonl")" -le 20 ] || fail "more lines than steps and tests"

refused() {
  local text=$1 status=0
  shift
  "$trainer" "${common[@]}" "$@" > "$dir/log" 2>&1 || status=$?
  [ $status != 0 ] || fail "$* is accepted"
  [ "$1" != --density ] || [ $status = 3 ] || fail "$*: status $status, and usage is 3"
  grep -F -- "$text" "$dir/log" > /dev/null || { cat "$dir/log"; fail "$*: does not say $text"; }
}
run --preset topka --optimizer adam --momentum 0
adam=$(fingerprint)
run --preset topka --optimizer adam
[ "$(fingerprint)" = "$adam" ] || fail "--momentum is for SGD"
run --preset topka --optimizer adam --no-recipe
[ "$(fingerprint)" != "$adam" ] || fail "there is no warm-up with adam"
run --preset dgc
plain=$(fingerprint)
run --preset dgc --no-recipe
[ "$(fingerprint)" != "$plain" ] || fail "--no-recipe changes nothing with dgc"
run --preset dgc --nesterov
[ "$(fingerprint)" != "$plain" ] || fail "--nesterov changes nothing with dgc"
run --preset dgc --vector-density 1
plain=$(fingerprint)
run --preset dgc --vector-density 1 --momentum 0
[ "$(fingerprint)" != "$plain" ] || fail "--momentum changes nothing with dgc and --vector-density"
run --preset dense
plain=$(fingerprint)
run --preset dense --no-recipe --schedule-steps 2
[ "$(fingerprint)" = "$plain" ] || fail "the recipe changes dense"
run --preset dense --clip-norm 0.1
[ "$(fingerprint)" != "$plain" ] || fail "--clip-norm changes nothing with dense"

"$trainer" --version | grep -qE '^sparsecoll-[a-z]+ [0-9]+[.][0-9]+[.][0-9]+$' || fail "no version"
refused "no preset" --preset nosuch
refused "needs one: no --bucket-mb" --preset topka --clip-norm 1 --bucket-mb 0.02
refused "--density" --density 1.5
refused "takes one --preset" --preset topka,micro --dump-gradients "$dir/g"
refused "no such directory" --data cifar10 --data-dir "$dir/nowhere"
refused "cannot write" --metrics "$dir/nowhere/m.jsonl"
